-- A garden centre whose tables were named by somebody with a taste for quotes, blanks, colons and percent signs.
-- now: Bestellungen "2024": 100%.geschlossen am

-- [tables]
CREATE SCHEMA "Shop ""Ж"" 1";
CREATE TABLE "Shop ""Ж"" 1"."select" (
    "SKU" bigint PRIMARY KEY,
    "frei" integer NOT NULL,
    "where" integer NOT NULL
);
CREATE TABLE "Shop ""Ж"" 1"."Bestellungen ""2024"": 100%" (
    "ID" bigint PRIMARY KEY,
    "Order No." varchar(40) NOT NULL UNIQUE,
    "Status %s" smallint NOT NULL,
    "zahlbar bis: ende" timestamptz,
    "geschlossen am" timestamptz,
    "Grund?" text
);
INSERT INTO "Shop ""Ж"" 1"."select" VALUES (1, 5, 3), (2, 7, 2);
INSERT INTO "Shop ""Ж"" 1"."Bestellungen ""2024"": 100%" VALUES
    (1, 'B 1/24%', 0, statement_timestamp() - interval '61 seconds'),
    (2, 'B "2"/24', 0, statement_timestamp() - interval '30 seconds'),
    (3, 'B ''3'':24', 10, statement_timestamp() - interval '3 hours'),
    (4, 'Б 4', 0, statement_timestamp() - interval '3 hours'),
    (5, 'B 5', 50, statement_timestamp() - interval '3 hours');

-- [rows]
INSERT INTO duetime_hold (order_no, kind, ref, quantity) VALUES
    ('B 1/24%', 'Lager %', '1', 2), ('B "2"/24', 'Lager %', '1', 1), ('Б 4', 'Lager %', '2', 1),
    ('B ''3'':24', 'Lager %', '2', 1);

-- [expected]
UPDATE "Shop ""Ж"" 1"."Bestellungen ""2024"": 100%"
SET "Status %s" = 99, "geschlossen am" = statement_timestamp(), "Grund?" = 'timeout' WHERE "ID" IN (1, 4);
UPDATE "Shop ""Ж"" 1"."select" SET "frei" = "frei" + 3 - "SKU", "where" = "where" - 3 + "SKU";
