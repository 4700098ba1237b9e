-- A mall with smallint states, Beijing time in naive columns, order lines, and a stock that is locked while unpaid.
-- now: t_order.close_time

-- [tables]
CREATE TABLE t_member (
    id bigserial PRIMARY KEY,
    username varchar(64) NOT NULL UNIQUE,
    phone varchar(20),
    status smallint NOT NULL DEFAULT 1
);
CREATE TABLE t_sku_stock (
    id bigserial PRIMARY KEY,
    product_id bigint NOT NULL,
    sku_code varchar(64) NOT NULL UNIQUE,
    price numeric(10, 2) NOT NULL,
    stock integer NOT NULL DEFAULT 0,
    lock_stock integer NOT NULL DEFAULT 0 CHECK (lock_stock >= 0),
    low_stock integer
);
COMMENT ON COLUMN t_sku_stock.lock_stock IS '锁定库存';
CREATE TABLE t_order (
    id bigserial PRIMARY KEY,
    member_id bigint NOT NULL REFERENCES t_member,
    order_sn varchar(64) NOT NULL UNIQUE,
    total_amount numeric(10, 2) NOT NULL,
    pay_amount numeric(10, 2) NOT NULL,
    pay_type smallint NOT NULL DEFAULT 0,
    order_type varchar(20) NOT NULL DEFAULT 'normal',
    status smallint NOT NULL DEFAULT 0,
    create_time timestamp NOT NULL,
    pay_deadline timestamp,
    payment_time timestamp,
    close_time timestamp,
    close_remark varchar(200),
    receiver_name varchar(100),
    note varchar(500)
);
COMMENT ON COLUMN t_order.status IS '订单状态 0待付款 1待发货 2已发货 3已完成 4已关闭 5无效订单';
COMMENT ON COLUMN t_order.pay_deadline IS '支付截止时间';
CREATE INDEX idx_member ON t_order (member_id);
CREATE INDEX idx_create_time ON t_order (create_time);
CREATE TABLE t_order_item (
    id bigserial PRIMARY KEY,
    order_id bigint NOT NULL REFERENCES t_order,
    order_sn varchar(64) NOT NULL,
    sku_id bigint NOT NULL REFERENCES t_sku_stock,
    product_name varchar(200) NOT NULL,
    price numeric(10, 2) NOT NULL,
    quantity integer NOT NULL DEFAULT 1 CHECK (quantity > 0)
);
CREATE INDEX idx_order ON t_order_item (order_id);
CREATE INDEX idx_order_sn ON t_order_item (order_sn);
CREATE TABLE t_order_history (
    order_id bigint NOT NULL,
    status smallint NOT NULL,
    operator varchar(30) NOT NULL DEFAULT 'system',
    PRIMARY KEY (order_id, status)
);
CREATE FUNCTION t_order_after_update() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.status <> OLD.status THEN
        INSERT INTO t_order_history (order_id, status) VALUES (NEW.id, NEW.status);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER t_order_after_update AFTER UPDATE ON t_order FOR EACH ROW EXECUTE FUNCTION t_order_after_update();
INSERT INTO t_member (username) VALUES ('zhang'), ('li');
INSERT INTO t_sku_stock (id, product_id, sku_code, price, stock, lock_stock) VALUES
    (1, 1, 'SHIRT-M', 59, 100, 9), (2, 1, 'SHIRT-L', 59, 50, 3), (3, 2, 'CUP', 19.9, 10, 1), (4, 3, 'LAMP', 99, 5, 0);

-- [rows]
INSERT INTO t_order (id, member_id, order_sn, total_amount, pay_amount, order_type, status, create_time, pay_deadline)
SELECT id, 1 + id % 2, '20240101000' || id, 59, 59, type, status, now8 - greatest(late, interval '0') - interval '1 minute', now8 - late
FROM (SELECT statement_timestamp() AT TIME ZONE 'Asia/Shanghai' AS now8) AS clock,
    (VALUES
        (1, 'normal', 0, interval '90 minutes'),
        (2, 'seckill', 0, '60 seconds'),
        (3, 'normal', 0, '25 seconds'),
        (4, 'normal', 0, '-29 minutes'),
        (5, 'normal', 1, '150 minutes'),
        (6, 'normal', 3, '30 days'),
        (7, 'normal', 4, '30 days'),
        (8, 'normal', 0, '2 hours'),
        (9, 'normal', 0, NULL)) AS o (id, type, status, late);
INSERT INTO t_order_item (order_id, order_sn, sku_id, product_name, price, quantity) VALUES
    (1, '202401010001', 1, 'shirt', 59, 2), (1, '202401010001', 2, 'shirt', 59, 1), (1, '202401010001', 1, 'shirt', 59, 1),
    (2, '202401010002', 1, 'shirt', 59, 4), (3, '202401010003', 2, 'shirt', 59, 2), (4, '202401010004', 1, 'shirt', 59, 2),
    (5, '202401010005', 3, 'cup', 19.9, 1), (7, '202401010007', 3, 'cup', 19.9, 1);

-- [expected]
UPDATE t_order SET status = 4, close_time = statement_timestamp() AT TIME ZONE 'Asia/Shanghai', close_remark = 'timeout'
WHERE status = 0 AND pay_deadline <= statement_timestamp() AT TIME ZONE 'Asia/Shanghai' - interval '60 seconds';
UPDATE t_sku_stock SET stock = stock + 7, lock_stock = lock_stock - 7 WHERE id = 1;
UPDATE t_sku_stock SET stock = stock + 1, lock_stock = lock_stock - 1 WHERE id = 2;
