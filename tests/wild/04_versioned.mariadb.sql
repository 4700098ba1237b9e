-- A shop on an object mapper: a version column that every write must raise, and an update time that the server keeps.
-- now: orders.updated_at

-- [tables]
CREATE TABLE inventory (
    sku varchar(40) NOT NULL PRIMARY KEY,
    quantity_available int NOT NULL,
    quantity_reserved int NOT NULL,
    CONSTRAINT not_below_zero CHECK (quantity_reserved >= 0)
);
CREATE TABLE orders (
    id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
    order_no varchar(40) NOT NULL,
    status varchar(30) NOT NULL,
    status_reason varchar(255) DEFAULT NULL,
    amount decimal(19, 4) NOT NULL,
    currency_code char(3) NOT NULL,
    expires_at datetime(3) DEFAULT NULL,
    version bigint NOT NULL DEFAULT 0,
    created_at datetime(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
    updated_at datetime(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3),
    updated_by varchar(60) NOT NULL DEFAULT 'app',
    UNIQUE KEY uk_orders_order_no (order_no)
);
CREATE TRIGGER orders_version BEFORE UPDATE ON orders FOR EACH ROW
BEGIN
    IF NEW.version <> OLD.version + 1 THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'stale version';
    END IF;
END;
CREATE TABLE order_lines (
    order_id bigint NOT NULL,
    line_no int NOT NULL,
    sku varchar(40) NOT NULL,
    quantity int NOT NULL,
    PRIMARY KEY (order_id, line_no),
    CONSTRAINT fk_line_order FOREIGN KEY (order_id) REFERENCES orders (id),
    CONSTRAINT fk_line_sku FOREIGN KEY (sku) REFERENCES inventory (sku)
);
INSERT INTO inventory VALUES ('CHAIR', 10, 5), ('TABLE', 3, 2);

-- [rows]
INSERT INTO orders (id, order_no, status, amount, currency_code, expires_at, version, updated_at) VALUES
    (1, 'A-1', 'PENDING_PAYMENT', 100, 'EUR', UTC_TIMESTAMP(3) - INTERVAL 10 MINUTE, 3, '2024-01-01'),
    (2, 'A-2', 'PENDING_PAYMENT', 100, 'EUR', UTC_TIMESTAMP(3) - INTERVAL 62 SECOND, 0, '2024-01-01'),
    (3, 'A-3', 'PENDING_PAYMENT', 100, 'EUR', UTC_TIMESTAMP(3) - INTERVAL 20 SECOND, 1, '2024-01-01'),
    (4, 'A-4', 'PAID', 100, 'EUR', UTC_TIMESTAMP(3) - INTERVAL 10 MINUTE, 1, '2024-01-01'),
    (5, 'A-5', 'CANCELLED', 100, 'EUR', UTC_TIMESTAMP(3) - INTERVAL 10 MINUTE, 2, '2024-01-01');
INSERT INTO order_lines VALUES (1, 1, 'CHAIR', 2), (1, 2, 'TABLE', 1), (2, 1, 'CHAIR', 1), (3, 1, 'CHAIR', 2),
    (4, 1, 'TABLE', 1), (5, 1, 'CHAIR', 9);

-- [expected]
UPDATE orders SET status = 'CANCELLED', status_reason = 'timeout', updated_by = 'sweep', version = version + 1
WHERE status = 'PENDING_PAYMENT' AND expires_at <= UTC_TIMESTAMP(3) - INTERVAL 60 SECOND;
UPDATE inventory SET quantity_available = quantity_available + 3, quantity_reserved = quantity_reserved - 3
WHERE sku = 'CHAIR';
UPDATE inventory SET quantity_available = quantity_available + 1, quantity_reserved = quantity_reserved - 1
WHERE sku = 'TABLE';
