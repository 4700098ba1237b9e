-- A ticket shop with UUIDs and milliseconds since 1970: a booking blocks seats, and each seat names its booking.
-- now: booking.expired_at_ms

-- [tables]
CREATE TABLE event (
    id char(36) CHARACTER SET ascii NOT NULL PRIMARY KEY,
    title varchar(100) NOT NULL,
    starts_at_ms bigint NOT NULL
);
CREATE TABLE booking (
    id char(36) CHARACTER SET ascii NOT NULL PRIMARY KEY,
    reference varchar(16) NOT NULL UNIQUE,
    event_id char(36) CHARACTER SET ascii NOT NULL,
    state varchar(10) NOT NULL,
    amount_cents bigint NOT NULL,
    currency char(3) NOT NULL,
    created_at_ms bigint NOT NULL,
    pay_until_ms bigint NOT NULL,
    expired_at_ms bigint,
    FOREIGN KEY (event_id) REFERENCES event (id),
    CHECK (state IN ('NEW', 'PAID', 'EXPIRED', 'REFUNDED'))
);
CREATE TABLE seat (
    seat_id char(36) CHARACTER SET ascii NOT NULL PRIMARY KEY,
    event_id char(36) CHARACTER SET ascii NOT NULL,
    label varchar(10) NOT NULL,
    state enum('FREE', 'BLOCKED', 'SOLD') NOT NULL DEFAULT 'FREE',
    booking_id char(36) CHARACTER SET ascii DEFAULT NULL,
    UNIQUE KEY one_label (event_id, label),
    FOREIGN KEY (event_id) REFERENCES event (id),
    FOREIGN KEY (booking_id) REFERENCES booking (id)
);
INSERT INTO event VALUES ('e0000000-0000-4000-8000-000000000001', 'Concert', 1900000000000);

-- [rows]
SET @now_ms = FLOOR(UNIX_TIMESTAMP(NOW(6)) * 1000), @event = 'e0000000-0000-4000-8000-000000000001';
INSERT INTO booking VALUES
    ('b0000000-0000-4000-8000-000000000001', 'TIX1', @event, 'NEW', 5000, 'EUR', @now_ms - 900000, @now_ms - 600000, NULL),
    ('b0000000-0000-4000-8000-000000000002', 'TIX2', @event, 'NEW', 5000, 'EUR', @now_ms - 900000, @now_ms - 60000, NULL),
    ('b0000000-0000-4000-8000-000000000003', 'TIX3', @event, 'NEW', 5000, 'EUR', @now_ms - 900000, @now_ms - 30000, NULL),
    ('b0000000-0000-4000-8000-000000000004', 'TIX4', @event, 'NEW', 5000, 'EUR', @now_ms - 900000, @now_ms + 600000, NULL),
    ('b0000000-0000-4000-8000-000000000005', 'TIX5', @event, 'PAID', 50, 'EUR', @now_ms - 900000, @now_ms - 600000, NULL),
    ('b0000000-0000-4000-8000-000000000006', 'TIX6', @event, 'REFUNDED', 1, 'EUR', @now_ms - 900000, @now_ms - 600000, NULL);
INSERT INTO seat VALUES
    ('a0000000-0000-4000-8000-000000000001', @event, 'A1', 'BLOCKED', 'b0000000-0000-4000-8000-000000000001'),
    ('a0000000-0000-4000-8000-000000000002', @event, 'A2', 'BLOCKED', 'b0000000-0000-4000-8000-000000000001'),
    ('a0000000-0000-4000-8000-000000000003', @event, 'A3', 'BLOCKED', 'b0000000-0000-4000-8000-000000000002'),
    ('a0000000-0000-4000-8000-000000000004', @event, 'A4', 'BLOCKED', 'b0000000-0000-4000-8000-000000000003'),
    ('a0000000-0000-4000-8000-000000000005', @event, 'A5', 'BLOCKED', 'b0000000-0000-4000-8000-000000000004'),
    ('a0000000-0000-4000-8000-000000000006', @event, 'A6', 'SOLD', 'b0000000-0000-4000-8000-000000000005'),
    ('a0000000-0000-4000-8000-000000000007', @event, 'A7', 'FREE', NULL);

-- [expected]
SET @now_ms = FLOOR(UNIX_TIMESTAMP(NOW(6)) * 1000);
UPDATE booking SET state = 'EXPIRED', expired_at_ms = @now_ms WHERE state = 'NEW' AND pay_until_ms <= @now_ms - 60000;
UPDATE seat SET state = 'FREE' WHERE label IN ('A1', 'A2', 'A3');
