-- A garden centre whose tables were named by somebody with a taste for quotes, blanks, colons and percent signs.
-- now: Bestellungen "2024": 100%.geschlossen am

-- [tables]
CREATE TABLE `select` (
    `SKU` bigint NOT NULL PRIMARY KEY,
    `frei` int NOT NULL,
    `where` int NOT NULL
);
CREATE TABLE `Bestellungen "2024": 100%` (
    `ID` bigint NOT NULL PRIMARY KEY,
    `Order No.` varchar(40) NOT NULL UNIQUE,
    `Status %s` smallint NOT NULL,
    `zahlbar bis: ende` datetime(6),
    `geschlossen am` datetime(6),
    `Grund?` text
);
INSERT INTO `select` VALUES (1, 5, 3), (2, 7, 2);
INSERT INTO `Bestellungen "2024": 100%` (`ID`, `Order No.`, `Status %s`, `zahlbar bis: ende`) VALUES
    (1, 'B 1/24%', 0, UTC_TIMESTAMP(6) - INTERVAL 61 SECOND),
    (2, 'B "2"/24', 0, UTC_TIMESTAMP(6) - INTERVAL 30 SECOND),
    (3, 'B ''3'':24', 10, UTC_TIMESTAMP(6) - INTERVAL 3 HOUR),
    (4, 'Б 4', 0, UTC_TIMESTAMP(6) - INTERVAL 3 HOUR),
    (5, 'B 5', 50, UTC_TIMESTAMP(6) - INTERVAL 3 HOUR);

-- [rows]
INSERT INTO duetime_hold (order_no, kind, ref, quantity) VALUES
    ('B 1/24%', 'Lager %', '1', 2), ('B "2"/24', 'Lager %', '1', 1), ('Б 4', 'Lager %', '2', 1),
    ('B ''3'':24', 'Lager %', '2', 1);

-- [expected]
UPDATE `Bestellungen "2024": 100%`
SET `Status %s` = 99, `geschlossen am` = UTC_TIMESTAMP(6), `Grund?` = 'timeout' WHERE `ID` IN (1, 4);
UPDATE `select` SET `frei` = `frei` + 3 - `SKU`, `where` = `where` - 3 + `SKU`;
