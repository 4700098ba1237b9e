-- A web shop whose orders have no deadline, only a time of creation; its job cancelled what was older than half an hour.
-- now: sales_orders.cancelled_at

-- [tables]
CREATE TABLE products (
    id int unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY,
    name varchar(100) NOT NULL,
    price decimal(10, 2) NOT NULL,
    stock int NOT NULL DEFAULT 0
);
CREATE TABLE sales_orders (
    id int unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY,
    order_number varchar(20) NOT NULL UNIQUE,
    status varchar(20) NOT NULL DEFAULT 'unpaid',
    total decimal(10, 2) NOT NULL,
    created_at datetime NOT NULL,
    paid_at datetime NULL,
    cancelled_at datetime NULL,
    KEY sales_orders_status_created (status, created_at)
);
CREATE TABLE sales_order_items (
    id int unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY,
    sales_order_id int unsigned NOT NULL,
    product_id int unsigned NOT NULL,
    qty int NOT NULL,
    CONSTRAINT item_order FOREIGN KEY (sales_order_id) REFERENCES sales_orders (id) ON DELETE CASCADE,
    CONSTRAINT item_product FOREIGN KEY (product_id) REFERENCES products (id)
);
INSERT INTO products (id, name, price, stock) VALUES (1, 'Kettle', 99, 4), (2, 'Toaster', 120, 0);

-- [rows]
INSERT INTO sales_orders (id, order_number, status, total, created_at, paid_at) VALUES
    (1, 'Z/1', 'unpaid', 99, UTC_TIMESTAMP() - INTERVAL 3 HOUR, NULL),
    (2, 'Z/2', 'unpaid', 99, UTC_TIMESTAMP() - INTERVAL 31 MINUTE, NULL),
    (3, 'Z/3', 'unpaid', 99, UTC_TIMESTAMP() - INTERVAL 1830 SECOND, NULL),
    (4, 'Z/4', 'unpaid', 99, UTC_TIMESTAMP() - INTERVAL 10 MINUTE, NULL),
    (5, 'Z/5', 'paid', 99, UTC_TIMESTAMP() - INTERVAL 3 HOUR, UTC_TIMESTAMP() - INTERVAL 2 HOUR);
INSERT INTO sales_order_items (sales_order_id, product_id, qty) VALUES
    (1, 1, 1), (1, 2, 2), (2, 1, 3), (3, 1, 1), (4, 2, 1), (5, 1, 1);

-- [expected]
UPDATE sales_orders SET status = 'cancelled', cancelled_at = UTC_TIMESTAMP()
WHERE status = 'unpaid' AND created_at <= UTC_TIMESTAMP() - INTERVAL 31 MINUTE;
UPDATE products SET stock = stock + CASE id WHEN 1 THEN 4 ELSE 2 END;
