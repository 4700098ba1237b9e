-- A hardware store moved here from another database: names in capitals, order numbers typed in either case.

-- [tables]
CREATE TABLE "Inventory" (
    "ItemCode" varchar(20) PRIMARY KEY,
    "QtyFree" integer NOT NULL,
    "QtyHeld" integer NOT NULL
);
CREATE TABLE "Orders" (
    "OrderID" serial PRIMARY KEY,
    "OrderNumber" varchar(20) NOT NULL UNIQUE,
    "OrderStatus" varchar(10) NOT NULL DEFAULT 'Open',
    "PayBefore" timestamp(3) NULL,
    "Total" numeric(10, 2) NOT NULL,
    "Remark" varchar(200) NULL
);
INSERT INTO "Inventory" VALUES ('Nail-10', 500, 60), ('nail-10', 9, 3), ('Hammer', 4, 2);
INSERT INTO "Orders" ("OrderNumber", "OrderStatus", "PayBefore", "Total") VALUES
    ('So-100', 'Open', statement_timestamp() AT TIME ZONE 'UTC' - interval '20 minutes', 12.50),
    ('SO-101', 'Open', statement_timestamp() AT TIME ZONE 'UTC' - interval '1 day', 8),
    ('so-102', 'Open', statement_timestamp() AT TIME ZONE 'UTC' + interval '25 minutes', 8),
    ('SO-103', 'Paid', statement_timestamp() AT TIME ZONE 'UTC' - interval '1 day', 8),
    ('so-101', 'Open', statement_timestamp() AT TIME ZONE 'UTC' + interval '2 days', 3);

-- [rows]
INSERT INTO duetime_hold (order_no, kind, ref, quantity) VALUES
    ('So-100', 'item', 'Nail-10', 50), ('So-100', 'item', 'nail-10', 1), ('SO-101', 'item', 'Hammer', 1),
    ('so-101', 'item', 'Hammer', 1), ('so-102', 'item', 'nail-10', 2), ('SO-103', 'item', 'Nail-10', 10);

-- [expected]
UPDATE "Orders" SET "OrderStatus" = 'Void', "Remark" = 'timeout' WHERE "OrderNumber" IN ('So-100', 'SO-101');
UPDATE "Inventory" SET "QtyFree" = "QtyFree" + 50, "QtyHeld" = "QtyHeld" - 50 WHERE "ItemCode" = 'Nail-10';
UPDATE "Inventory" SET "QtyFree" = "QtyFree" + 1, "QtyHeld" = "QtyHeld" - 1 WHERE "ItemCode" IN ('nail-10', 'Hammer');
