-- A wholesaler with two warehouses: a stock row is named by warehouse and article together.

-- [tables]
CREATE TABLE warehouse (
    id smallint NOT NULL PRIMARY KEY,
    city varchar(40) NOT NULL
);
CREATE TABLE wh_stock (
    warehouse_id smallint NOT NULL,
    sku varchar(30) NOT NULL,
    free integer NOT NULL,
    reserved integer NOT NULL,
    CHECK (free >= 0 AND reserved >= 0),
    PRIMARY KEY (warehouse_id, sku),
    FOREIGN KEY (warehouse_id) REFERENCES warehouse (id)
);
CREATE TABLE wh_order (
    order_id integer NOT NULL PRIMARY KEY,
    order_no varchar(20) NOT NULL UNIQUE,
    status char(1) NOT NULL,
    amount decimal(10, 2) NOT NULL,
    reserved_until datetime(6),
    changed_by varchar(20) NOT NULL DEFAULT 'erp'
);
INSERT INTO warehouse VALUES (1, 'Basel'), (2, 'Chur');
INSERT INTO wh_stock VALUES (1, 'OIL', 10, 5), (2, 'OIL', 20, 7), (1, 'SALT "fine"', 4, 4);

-- [rows]
INSERT INTO wh_order (order_id, order_no, status, amount, reserved_until) VALUES
    (1, 'W-1', 'R', 100, UTC_TIMESTAMP(6) - INTERVAL 2 HOUR), (2, 'W-2', 'R', 100, UTC_TIMESTAMP(6) - INTERVAL 70 SECOND),
    (3, 'W-3', 'R', 100, UTC_TIMESTAMP(6) - INTERVAL 30 SECOND), (4, 'W-4', 'P', 100, UTC_TIMESTAMP(6) - INTERVAL 2 HOUR);
INSERT INTO duetime_hold (order_no, kind, ref, quantity) VALUES
    ('W-1', 'stock', '[1, "OIL"]', 2), ('W-1', 'stock', '[2, "OIL"]', 3), ('W-2', 'stock', '[1, "SALT \\"fine\\""]', 4),
    ('W-3', 'stock', '[1, "OIL"]', 3), ('W-4', 'stock', '[2, "OIL"]', 4);

-- [expected]
UPDATE wh_order SET status = 'C', changed_by = 'sweep' WHERE order_no IN ('W-1', 'W-2');
UPDATE wh_stock SET free = free + 2, reserved = reserved - 2 WHERE warehouse_id = 1 AND sku = 'OIL';
UPDATE wh_stock SET free = free + 3, reserved = reserved - 3 WHERE warehouse_id = 2 AND sku = 'OIL';
UPDATE wh_stock SET free = free + 4, reserved = reserved - 4 WHERE sku LIKE 'SALT%';
