-- A food-ordering shop whose statuses are Chinese words and whose times are whole seconds of Beijing time.
-- now: food_order.cancel_time

-- [tables]
CREATE TABLE restaurant (
    id serial PRIMARY KEY,
    name varchar(60) NOT NULL
);
CREATE TABLE dish_stock (
    dish_id integer PRIMARY KEY,
    restaurant_id integer NOT NULL REFERENCES restaurant,
    name varchar(60) NOT NULL,
    remain integer NOT NULL CHECK (remain >= 0)
);
COMMENT ON TABLE dish_stock IS '菜品库存';
COMMENT ON COLUMN dish_stock.remain IS '今日剩余份数';
CREATE TABLE food_order (
    id bigserial PRIMARY KEY,
    order_code varchar(32) NOT NULL UNIQUE,
    restaurant_id integer NOT NULL REFERENCES restaurant,
    status varchar(12) NOT NULL DEFAULT '待付款',
    pay_amount integer NOT NULL,
    create_time timestamp(0) NOT NULL,
    pay_expire_time timestamp(0) NOT NULL,
    cancel_time timestamp(0),
    cancel_reason varchar(60)
);
COMMENT ON TABLE food_order IS '外卖订单';
COMMENT ON COLUMN food_order.pay_expire_time IS '支付截止时间';
CREATE TABLE food_order_dish (
    id bigserial PRIMARY KEY,
    order_id bigint NOT NULL REFERENCES food_order,
    dish_id integer NOT NULL REFERENCES dish_stock,
    copies integer NOT NULL DEFAULT 1,
    taste varchar(30) NOT NULL DEFAULT ''
);
CREATE INDEX food_order_dish_order ON food_order_dish (order_id);
INSERT INTO restaurant (name) VALUES ('老王面馆');
INSERT INTO dish_stock VALUES (1, 1, '牛肉面', 20), (2, 1, '凉皮', 3), (3, 1, '酸梅汤', 50);

-- [rows]
INSERT INTO food_order (id, order_code, restaurant_id, status, pay_amount, create_time, pay_expire_time)
SELECT id, 'F000' || id, 1, status, amount, beijing - ago, beijing - late
FROM (SELECT date_trunc('second', statement_timestamp() AT TIME ZONE 'Asia/Shanghai') AS beijing) AS clock,
    (VALUES
        (1, '待付款', 3200, interval '20 minutes', interval '5 minutes'),
        (2, '待付款', 1800, '16 minutes', '60 seconds'),
        (3, '待付款', 1800, '15 minutes', '30 seconds'),
        (4, '待付款', 900, '0', '-15 minutes'),
        (5, '待接单', 900, '1 hour', '45 minutes'),
        (6, '已完成', 900, '1 day', '23 hours'),
        (7, '已取消', 900, '1 day', '23 hours')) AS o (id, status, amount, ago, late);
INSERT INTO food_order_dish (order_id, dish_id, copies, taste) VALUES
    (1, 1, 1, '微辣'), (1, 1, 2, '不辣'), (1, 3, 2, ''), (2, 2, 1, ''), (3, 2, 1, ''), (4, 1, 1, ''), (5, 1, 3, ''),
    (7, 2, 2, '');

-- [expected]
UPDATE food_order SET status = '已取消', cancel_reason = 'timeout',
    cancel_time = statement_timestamp() AT TIME ZONE 'Asia/Shanghai'
WHERE status = '待付款'
    AND pay_expire_time <= statement_timestamp() AT TIME ZONE 'Asia/Shanghai' - interval '60 seconds';
UPDATE dish_stock SET remain = CASE dish_id WHEN 1 THEN 23 WHEN 2 THEN 4 ELSE 52 END;
