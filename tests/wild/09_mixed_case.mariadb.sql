-- A hardware store with utf8mb3 tables that ignore case: order numbers and item codes are typed in either case.

-- [tables]
CREATE TABLE `Inventory` (
    `ItemCode` varchar(20) NOT NULL PRIMARY KEY,
    `QtyFree` int NOT NULL,
    `QtyHeld` int NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
CREATE TABLE `Orders` (
    `OrderID` int NOT NULL AUTO_INCREMENT PRIMARY KEY,
    `OrderNumber` varchar(20) NOT NULL,
    `OrderStatus` varchar(10) NOT NULL DEFAULT 'Open',
    `PayBefore` datetime(3) NULL,
    `Total` decimal(10, 2) NOT NULL,
    `Remark` varchar(200) NULL,
    UNIQUE KEY `OrderNumber` (`OrderNumber`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci;
INSERT INTO `Inventory` VALUES ('Nail-10', 500, 60), ('Schraube-ß', 9, 3), ('Hammer', 4, 2);
INSERT INTO `Orders` (`OrderNumber`, `OrderStatus`, `PayBefore`, `Total`) VALUES
    ('So-100', 'Open', UTC_TIMESTAMP(3) - INTERVAL 20 MINUTE, 12.50),
    ('SO-101', 'OPEN', UTC_TIMESTAMP(3) - INTERVAL 1 DAY, 8),
    ('so-102', 'Open', UTC_TIMESTAMP(3) + INTERVAL 25 MINUTE, 8),
    ('SO-103', 'Paid', UTC_TIMESTAMP(3) - INTERVAL 1 DAY, 8),
    ('so-104', 'Open', UTC_TIMESTAMP(3) + INTERVAL 2 DAY, 3);

-- [rows]
INSERT INTO duetime_hold (order_no, kind, ref, quantity) VALUES
    ('So-100', 'item', 'Nail-10', 50), ('So-100', 'item', 'Schraube-ß', 1), ('SO-101', 'item', 'HAMMER', 1),
    ('so-104', 'item', 'Hammer', 1), ('so-102', 'item', 'Schraube-ß', 2), ('SO-103', 'item', 'Nail-10', 10);

-- [expected]
UPDATE `Orders` SET `OrderStatus` = 'Void', `Remark` = 'timeout' WHERE `OrderNumber` IN ('So-100', 'SO-101');
UPDATE `Inventory` SET `QtyFree` = `QtyFree` + 50, `QtyHeld` = `QtyHeld` - 50 WHERE `ItemCode` = 'Nail-10';
UPDATE `Inventory` SET `QtyFree` = `QtyFree` + 1, `QtyHeld` = `QtyHeld` - 1
WHERE `ItemCode` IN ('Schraube-ß', 'Hammer');
