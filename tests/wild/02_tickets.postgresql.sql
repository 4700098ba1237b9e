-- A ticket shop with UUIDs and milliseconds since 1970: a booking blocks seats, and each seat names its booking.
-- now: booking.expired_at_ms

-- [tables]
CREATE TABLE event (
    id uuid PRIMARY KEY,
    title text NOT NULL,
    starts_at_ms bigint NOT NULL
);
CREATE TABLE booking (
    id uuid PRIMARY KEY,
    reference varchar(16) NOT NULL UNIQUE,
    event_id uuid NOT NULL REFERENCES event,
    state varchar(10) NOT NULL CHECK (state IN ('NEW', 'PAID', 'EXPIRED', 'REFUNDED')),
    amount_cents bigint NOT NULL,
    currency char(3) NOT NULL,
    created_at_ms bigint NOT NULL,
    pay_until_ms bigint NOT NULL,
    expired_at_ms bigint
);
CREATE TABLE seat (
    seat_id uuid PRIMARY KEY,
    event_id uuid NOT NULL REFERENCES event,
    label varchar(10) NOT NULL,
    state varchar(10) NOT NULL DEFAULT 'FREE' CHECK (state IN ('FREE', 'BLOCKED', 'SOLD')),
    booking_id uuid REFERENCES booking,
    UNIQUE (event_id, label)
);
CREATE INDEX seat_booking ON seat (booking_id);
INSERT INTO event VALUES ('e0000000-0000-4000-8000-000000000001', 'Concert', 1900000000000);

-- [rows]
INSERT INTO booking
SELECT ('b0000000-0000-4000-8000-00000000000' || n)::uuid, 'TIX' || n, 'e0000000-0000-4000-8000-000000000001', state,
    5000, 'EUR', now_ms - 900000, now_ms - late_ms
FROM (SELECT floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint AS now_ms) AS clock,
    (VALUES (1, 'NEW', 600000), (2, 'NEW', 60000), (3, 'NEW', 30000), (4, 'NEW', -600000), (5, 'PAID', 600000),
        (6, 'REFUNDED', 600000)) AS b (n, state, late_ms);
INSERT INTO seat
SELECT ('a0000000-0000-4000-8000-00000000000' || n)::uuid, 'e0000000-0000-4000-8000-000000000001', 'A' || n, state,
    ('b0000000-0000-4000-8000-00000000000' || booking)::uuid
FROM (VALUES (1, 'BLOCKED', 1), (2, 'BLOCKED', 1), (3, 'BLOCKED', 2), (4, 'BLOCKED', 3), (5, 'BLOCKED', 4), (6, 'SOLD', 5),
    (7, 'FREE', NULL)) AS s (n, state, booking);

-- [expected]
UPDATE booking SET state = 'EXPIRED', expired_at_ms = extract(epoch FROM statement_timestamp()) * 1000
WHERE state = 'NEW' AND pay_until_ms <= extract(epoch FROM statement_timestamp()) * 1000 - 60000;
UPDATE seat SET state = 'FREE' WHERE label IN ('A1', 'A2', 'A3');
