-- A mall with tinyint states, Beijing time in DATETIME columns, order lines, and a stock that is locked while unpaid.
-- now: t_order.close_time

-- [tables]
CREATE TABLE t_member (
    id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
    username varchar(64) NOT NULL COMMENT '用户名',
    phone varchar(20) DEFAULT NULL COMMENT '手机号',
    status tinyint NOT NULL DEFAULT 1 COMMENT '0禁用 1启用',
    UNIQUE KEY uk_username (username)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COMMENT='会员表';
CREATE TABLE t_sku_stock (
    id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
    product_id bigint NOT NULL,
    sku_code varchar(64) NOT NULL COMMENT 'sku编码',
    price decimal(10, 2) NOT NULL,
    stock int NOT NULL DEFAULT 0 COMMENT '可售库存',
    lock_stock int NOT NULL DEFAULT 0 COMMENT '锁定库存',
    low_stock int DEFAULT NULL COMMENT '预警库存',
    UNIQUE KEY uk_sku_code (sku_code)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COMMENT='商品sku库存';
CREATE TABLE t_order (
    id bigint NOT NULL AUTO_INCREMENT COMMENT '主键' PRIMARY KEY,
    member_id bigint NOT NULL COMMENT '会员id',
    order_sn varchar(64) NOT NULL COMMENT '订单编号',
    total_amount decimal(10, 2) NOT NULL COMMENT '订单总金额',
    pay_amount decimal(10, 2) NOT NULL COMMENT '应付金额',
    pay_type tinyint NOT NULL DEFAULT 0 COMMENT '支付方式 0未支付 1支付宝 2微信',
    order_type varchar(20) NOT NULL DEFAULT 'normal' COMMENT '订单类型 normal正常订单 seckill秒杀订单',
    status tinyint NOT NULL DEFAULT 0 COMMENT '订单状态 0待付款 1待发货 2已发货 3已完成 4已关闭 5无效订单',
    create_time datetime NOT NULL COMMENT '提交时间',
    pay_deadline datetime DEFAULT NULL COMMENT '支付截止时间',
    payment_time datetime DEFAULT NULL COMMENT '支付时间',
    close_time datetime DEFAULT NULL COMMENT '关闭时间',
    close_remark varchar(200) DEFAULT NULL COMMENT '关闭原因',
    receiver_name varchar(100) DEFAULT NULL,
    note varchar(500) DEFAULT NULL,
    UNIQUE KEY uk_order_sn (order_sn),
    KEY idx_member (member_id),
    KEY idx_create_time (create_time),
    CONSTRAINT fk_order_member FOREIGN KEY (member_id) REFERENCES t_member (id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COMMENT='订单表';
CREATE TABLE t_order_item (
    id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
    order_id bigint NOT NULL COMMENT '订单id',
    order_sn varchar(64) NOT NULL COMMENT '订单编号',
    sku_id bigint NOT NULL,
    product_name varchar(200) NOT NULL,
    price decimal(10, 2) NOT NULL COMMENT '销售价格',
    quantity int NOT NULL DEFAULT 1 COMMENT '购买数量',
    KEY idx_order (order_id),
    KEY idx_order_sn (order_sn),
    CONSTRAINT fk_item_order FOREIGN KEY (order_id) REFERENCES t_order (id),
    CONSTRAINT fk_item_sku FOREIGN KEY (sku_id) REFERENCES t_sku_stock (id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COMMENT='订单明细';
CREATE TABLE t_order_history (
    order_id bigint NOT NULL,
    status tinyint NOT NULL,
    operator varchar(30) NOT NULL DEFAULT 'system',
    PRIMARY KEY (order_id, status)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COMMENT='订单操作历史';
CREATE TRIGGER t_order_after_update AFTER UPDATE ON t_order FOR EACH ROW
BEGIN
    IF NEW.status <> OLD.status THEN
        INSERT INTO t_order_history (order_id, status) VALUES (NEW.id, NEW.status);
    END IF;
END;
INSERT INTO t_member (username) VALUES ('zhang'), ('li');
INSERT INTO t_sku_stock (id, product_id, sku_code, price, stock, lock_stock) VALUES
    (1, 1, 'SHIRT-M', 59, 100, 9), (2, 1, 'SHIRT-L', 59, 50, 3), (3, 2, 'CUP', 19.9, 10, 1), (4, 3, 'LAMP', 99, 5, 0);

-- [rows]
SET @now8 = UTC_TIMESTAMP(0) + INTERVAL 8 HOUR;
INSERT INTO t_order (id, member_id, order_sn, total_amount, pay_amount, order_type, status, create_time, pay_deadline)
VALUES
    (1, 1, '202401010001', 177, 177, 'normal', 0, @now8 - INTERVAL 2 HOUR, @now8 - INTERVAL 90 MINUTE),
    (2, 1, '202401010002', 59, 59, 'seckill', 0, @now8 - INTERVAL 31 MINUTE, @now8 - INTERVAL 60 SECOND),
    (3, 2, '202401010003', 59, 59, 'normal', 0, @now8 - INTERVAL 30 MINUTE, @now8 - INTERVAL 25 SECOND),
    (4, 2, '202401010004', 59, 59, 'normal', 0, @now8 - INTERVAL 1 MINUTE, @now8 + INTERVAL 29 MINUTE),
    (5, 2, '202401010005', 59, 59, 'normal', 1, @now8 - INTERVAL 3 HOUR, @now8 - INTERVAL 150 MINUTE),
    (6, 2, '202401010006', 59, 59, 'normal', 3, @now8 - INTERVAL 30 DAY, @now8 - INTERVAL 30 DAY),
    (7, 2, '202401010007', 59, 59, 'normal', 4, @now8 - INTERVAL 30 DAY, @now8 - INTERVAL 30 DAY),
    (8, 2, '202401010008', 0, 0, 'normal', 0, @now8 - INTERVAL 3 HOUR, @now8 - INTERVAL 2 HOUR),
    (9, 1, '202401010009', 59, 59, 'normal', 0, @now8 - INTERVAL 3 HOUR, NULL);
INSERT INTO t_order_item (order_id, order_sn, sku_id, product_name, price, quantity) VALUES
    (1, '202401010001', 1, 'shirt', 59, 2), (1, '202401010001', 2, 'shirt', 59, 1), (1, '202401010001', 1, 'shirt', 59, 1),
    (2, '202401010002', 1, 'shirt', 59, 4), (3, '202401010003', 2, 'shirt', 59, 2), (4, '202401010004', 1, 'shirt', 59, 2),
    (5, '202401010005', 3, 'cup', 19.9, 1), (7, '202401010007', 3, 'cup', 19.9, 1);

-- [expected]
SET @now8 = UTC_TIMESTAMP(0) + INTERVAL 8 HOUR;
UPDATE t_order SET status = 4, close_time = @now8, close_remark = 'timeout'
WHERE status = 0 AND pay_deadline <= @now8 - INTERVAL 60 SECOND;
UPDATE t_sku_stock SET stock = stock + 7, lock_stock = lock_stock - 7 WHERE id = 1;
UPDATE t_sku_stock SET stock = stock + 1, lock_stock = lock_stock - 1 WHERE id = 2;
