-- A food-ordering shop whose statuses are Chinese words and whose times are whole seconds of Beijing time.
-- now: food_order.cancel_time

-- [tables]
CREATE TABLE restaurant (
    id int NOT NULL AUTO_INCREMENT PRIMARY KEY,
    name varchar(60) NOT NULL COMMENT '店名'
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COMMENT='餐厅';
CREATE TABLE dish_stock (
    dish_id int NOT NULL PRIMARY KEY,
    restaurant_id int NOT NULL,
    name varchar(60) NOT NULL COMMENT '菜名',
    remain int NOT NULL COMMENT '今日剩余份数',
    CONSTRAINT dish_of FOREIGN KEY (restaurant_id) REFERENCES restaurant (id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COMMENT='菜品库存';
CREATE TABLE food_order (
    id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
    order_code varchar(32) NOT NULL COMMENT '订单编号',
    restaurant_id int NOT NULL,
    status varchar(12) NOT NULL DEFAULT '待付款' COMMENT '订单状态',
    pay_amount int NOT NULL COMMENT '应付金额(分)',
    create_time datetime NOT NULL COMMENT '下单时间',
    pay_expire_time datetime NOT NULL COMMENT '支付截止时间',
    cancel_time datetime DEFAULT NULL COMMENT '取消时间',
    cancel_reason varchar(60) DEFAULT NULL COMMENT '取消原因',
    UNIQUE KEY uk_code (order_code),
    KEY idx_restaurant (restaurant_id, create_time),
    CONSTRAINT ordered_at FOREIGN KEY (restaurant_id) REFERENCES restaurant (id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COMMENT='外卖订单';
CREATE TABLE food_order_dish (
    id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
    order_id bigint NOT NULL,
    dish_id int NOT NULL,
    copies int NOT NULL DEFAULT 1 COMMENT '份数',
    taste varchar(30) NOT NULL DEFAULT '' COMMENT '口味',
    KEY idx_order (order_id),
    CONSTRAINT dish_in FOREIGN KEY (order_id) REFERENCES food_order (id),
    CONSTRAINT dish_is FOREIGN KEY (dish_id) REFERENCES dish_stock (dish_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COMMENT='订单菜品';
INSERT INTO restaurant (name) VALUES ('老王面馆');
INSERT INTO dish_stock VALUES (1, 1, '牛肉面', 20), (2, 1, '凉皮', 3), (3, 1, '酸梅汤', 50);

-- [rows]
SET @beijing = UTC_TIMESTAMP(0) + INTERVAL 8 HOUR;
INSERT INTO food_order (id, order_code, restaurant_id, status, pay_amount, create_time, pay_expire_time) VALUES
    (1, 'F0001', 1, '待付款', 3200, @beijing - INTERVAL 20 MINUTE, @beijing - INTERVAL 5 MINUTE),
    (2, 'F0002', 1, '待付款', 1800, @beijing - INTERVAL 16 MINUTE, @beijing - INTERVAL 60 SECOND),
    (3, 'F0003', 1, '待付款', 1800, @beijing - INTERVAL 15 MINUTE, @beijing - INTERVAL 30 SECOND),
    (4, 'F0004', 1, '待付款', 900, @beijing, @beijing + INTERVAL 15 MINUTE),
    (5, 'F0005', 1, '待接单', 900, @beijing - INTERVAL 1 HOUR, @beijing - INTERVAL 45 MINUTE),
    (6, 'F0006', 1, '已完成', 900, @beijing - INTERVAL 1 DAY, @beijing - INTERVAL 23 HOUR),
    (7, 'F0007', 1, '已取消', 900, @beijing - INTERVAL 1 DAY, @beijing - INTERVAL 23 HOUR);
INSERT INTO food_order_dish (order_id, dish_id, copies, taste) VALUES
    (1, 1, 1, '微辣'), (1, 1, 2, '不辣'), (1, 3, 2, ''), (2, 2, 1, ''), (3, 2, 1, ''), (4, 1, 1, ''), (5, 1, 3, ''),
    (7, 2, 2, '');

-- [expected]
UPDATE food_order SET status = '已取消', cancel_reason = 'timeout', cancel_time = UTC_TIMESTAMP() + INTERVAL 8 HOUR
WHERE status = '待付款' AND pay_expire_time <= UTC_TIMESTAMP() + INTERVAL 8 HOUR - INTERVAL 60 SECOND;
UPDATE dish_stock SET remain = CASE dish_id WHEN 1 THEN 23 WHEN 2 THEN 4 ELSE 52 END;
