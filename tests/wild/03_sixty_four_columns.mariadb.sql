-- A mail-order house of thirty years: one table of sixty-four columns, states of two letters, rows that are never deleted.
-- now: ord_head.closed
-- backlog: H00009 was forgotten for three years

-- [tables]
CREATE TABLE ord_head (
    orderid int NOT NULL PRIMARY KEY,
    ordno varchar(20) NOT NULL,
    stat char(2) NOT NULL,
    is_deleted smallint NOT NULL DEFAULT 0,
    pay_type varchar(10) NOT NULL DEFAULT 'card',
    overtime datetime,
    closed datetime,
    created datetime,
    cust_no varchar(20),
    total_cent integer NOT NULL DEFAULT 0,
    ship_name varchar(100),
    ship_street varchar(100),
    ship_zip varchar(100),
    ship_city varchar(100),
    ship_country varchar(100),
    ship_phone varchar(100),
    bill_name varchar(100),
    bill_street varchar(100),
    bill_zip varchar(100),
    bill_city varchar(100),
    bill_country varchar(100),
    bill_phone varchar(100),
    carrier varchar(100),
    tracking varchar(100),
    weight_g integer,
    gift_note varchar(100),
    invoice_no varchar(100),
    dealer_no varchar(100),
    attr_01 varchar(100),
    attr_02 varchar(100),
    attr_03 varchar(100),
    attr_04 varchar(100),
    attr_05 varchar(100),
    attr_06 varchar(100),
    attr_07 varchar(100),
    attr_08 varchar(100),
    attr_09 varchar(100),
    attr_10 varchar(100),
    attr_11 varchar(100),
    attr_12 varchar(100),
    attr_13 varchar(100),
    attr_14 varchar(100),
    attr_15 varchar(100),
    attr_16 varchar(100),
    attr_17 varchar(100),
    attr_18 varchar(100),
    attr_19 varchar(100),
    attr_20 varchar(100),
    attr_21 varchar(100),
    attr_22 varchar(100),
    attr_23 varchar(100),
    attr_24 varchar(100),
    attr_25 varchar(100),
    attr_26 varchar(100),
    attr_27 varchar(100),
    attr_28 varchar(100),
    attr_29 varchar(100),
    attr_30 varchar(100),
    attr_31 varchar(100),
    attr_32 varchar(100),
    attr_33 varchar(100),
    attr_34 varchar(100),
    attr_35 varchar(100),
    attr_36 varchar(100),
    UNIQUE KEY ordno (ordno)
);
CREATE TABLE art (
    artno varchar(20) NOT NULL PRIMARY KEY,
    free_qty integer NOT NULL,
    res_qty integer NOT NULL
);
INSERT INTO art VALUES ('4711', 80, 20), ('4712', 1, 7);

-- [rows]
INSERT INTO ord_head (orderid, ordno, stat, is_deleted, pay_type, overtime) VALUES
    (1, 'H00001', 'N ', 0, 'card', UTC_TIMESTAMP(0) - INTERVAL 40 MINUTE),
    (2, 'H00002', 'N ', 0, 'invoice', UTC_TIMESTAMP(0) - INTERVAL 90 SECOND),
    (3, 'H00003', 'N ', 1, 'card', UTC_TIMESTAMP(0) - INTERVAL 40 MINUTE),
    (4, 'H00004', 'N ', 0, 'cod', UTC_TIMESTAMP(0) - INTERVAL 40 MINUTE),
    (5, 'H00005', 'N ', 0, 'card', UTC_TIMESTAMP(0) - INTERVAL 20 SECOND),
    (6, 'H00006', 'P ', 0, 'card', UTC_TIMESTAMP(0) - INTERVAL 40 MINUTE),
    (7, 'H00007', 'X ', 0, 'card', UTC_TIMESTAMP(0) - INTERVAL 40 MINUTE),
    (8, 'H00008', 'N', 0, 'card', UTC_TIMESTAMP(0) + INTERVAL 2 HOUR),
    (9, 'H00009', 'N ', 0, 'card', UTC_TIMESTAMP(0) - INTERVAL 3 YEAR);
INSERT INTO duetime_hold (order_no, kind, ref, quantity) VALUES
    ('H00001', 'article', '4711', 5), ('H00002', 'article', '4711', 1), ('H00002', 'article', '4712', 2),
    ('H00003', 'article', '4711', 3), ('H00004', 'article', '4712', 1), ('H00005', 'article', '4712', 3),
    ('H00006', 'article', '4711', 11), ('H00009', 'article', '4712', 1);

-- [expected]
UPDATE ord_head SET stat = 'X', closed = UTC_TIMESTAMP(0) WHERE orderid IN (1, 2, 9);
UPDATE art SET free_qty = free_qty + 6, res_qty = res_qty - 6 WHERE artno = '4711';
UPDATE art SET free_qty = free_qty + 3, res_qty = res_qty - 3 WHERE artno = '4712';
