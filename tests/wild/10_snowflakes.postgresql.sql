-- A marketplace with numbers for everything: snowflake ids, integer order numbers, seconds since 1970, 0 for no deadline.

-- [tables]
CREATE TABLE sku (
    sku_id bigint NOT NULL PRIMARY KEY,
    title varchar(100) NOT NULL,
    stock_num integer NOT NULL
);
CREATE TABLE trade_order (
    id bigint NOT NULL PRIMARY KEY,
    trade_no bigint NOT NULL UNIQUE,
    buyer_id bigint NOT NULL,
    trade_status integer NOT NULL,
    total_fee bigint NOT NULL,
    create_time integer NOT NULL,
    expire_time integer NOT NULL DEFAULT 0
);
CREATE TABLE trade_order_item (
    id bigint NOT NULL PRIMARY KEY,
    order_id bigint NOT NULL,
    sku_id bigint NOT NULL,
    num integer NOT NULL,
    FOREIGN KEY (order_id) REFERENCES trade_order (id)
);
CREATE INDEX item_order ON trade_order_item (order_id);
CREATE TABLE user_coupon (
    id bigint NOT NULL PRIMARY KEY,
    user_id bigint NOT NULL,
    status smallint NOT NULL DEFAULT 0,
    trade_no bigint
);
CREATE INDEX coupon_trade ON user_coupon (trade_no);
COMMENT ON COLUMN trade_order.trade_status IS '交易状态: 100待支付 200已支付 300已关闭 400已退款';
COMMENT ON COLUMN trade_order.expire_time IS '过期时间, 0不过期';
COMMENT ON COLUMN user_coupon.status IS '0未使用 1已锁定 2已使用 3已过期';
INSERT INTO sku VALUES (7300000000000000001, 'pen', 100), (7300000000000000002, 'ink', 5);

-- [rows]
INSERT INTO trade_order (id, trade_no, buyer_id, trade_status, total_fee, create_time, expire_time)
SELECT 7200000000000000000 + n, 9100000000000000000 + n, 7, status, 1990, floor(extract(epoch FROM statement_timestamp()))::bigint - 3600,
    CASE WHEN late IS NULL THEN 0 ELSE floor(extract(epoch FROM statement_timestamp()))::bigint - late END
FROM (SELECT 1 AS n, 100 AS status, 1800 AS late UNION ALL SELECT 2, 100, 60 UNION ALL SELECT 3, 100, 30
    UNION ALL SELECT 4, 100, -1800 UNION ALL SELECT 5, 200, 1800 UNION ALL SELECT 6, 400, 1800
    UNION ALL SELECT 7, 100, NULL) AS made;
INSERT INTO trade_order_item VALUES
    (1, 7200000000000000001, 7300000000000000001, 3), (2, 7200000000000000001, 7300000000000000002, 1),
    (3, 7200000000000000002, 7300000000000000001, 2), (4, 7200000000000000003, 7300000000000000001, 5),
    (5, 7200000000000000007, 7300000000000000002, 5);
INSERT INTO user_coupon VALUES (51, 7, 1, 9100000000000000001), (52, 7, 1, 9100000000000000003), (53, 7, 0, NULL),
    (54, 7, 2, 9100000000000000005);

-- [expected]
UPDATE trade_order SET trade_status = 300
WHERE trade_status = 100 AND expire_time > 0 AND expire_time <= floor(extract(epoch FROM statement_timestamp()))::bigint - 60;
UPDATE sku SET stock_num = stock_num + CASE title WHEN 'pen' THEN 5 ELSE 1 END;
UPDATE user_coupon SET status = 0 WHERE id = 51;
