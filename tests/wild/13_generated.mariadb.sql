-- A software seller whose deadline is a generated column: the time of creation and a time-out of each row.

-- [tables]
CREATE TABLE licences (
    product varchar(30) NOT NULL PRIMARY KEY,
    unsold int NOT NULL,
    on_hold int NOT NULL,
    total int GENERATED ALWAYS AS (unsold + on_hold) VIRTUAL
);
CREATE TABLE purchases (
    purchase_id char(36) NOT NULL PRIMARY KEY,
    reference varchar(30) NOT NULL UNIQUE,
    state varchar(12) NOT NULL,
    kind varchar(12) NOT NULL,
    cents bigint NOT NULL,
    created_at datetime(6) NOT NULL,
    minutes_to_pay int NOT NULL DEFAULT 15,
    pay_until datetime(6) GENERATED ALWAYS AS (created_at + INTERVAL minutes_to_pay MINUTE) STORED,
    note varchar(80)
);
INSERT INTO licences (product, unsold, on_hold) VALUES ('editor', 10, 5), ('compiler', 0, 3);
INSERT INTO purchases (purchase_id, reference, state, kind, cents, created_at, minutes_to_pay) VALUES
    ('00000000-0000-4000-8000-000000000001', 'P-1', 'open', 'download', 4900, UTC_TIMESTAMP(6) - INTERVAL 16 MINUTE, 15),
    ('00000000-0000-4000-8000-000000000002', 'P-2', 'open', 'download', 4900, UTC_TIMESTAMP(6) - INTERVAL 920 SECOND, 15),
    ('00000000-0000-4000-8000-000000000003', 'P-3', 'open', 'box', 4900, UTC_TIMESTAMP(6) - INTERVAL 90 MINUTE, 240),
    ('00000000-0000-4000-8000-000000000004', 'P-4', 'settled', 'box', 4900, UTC_TIMESTAMP(6) - INTERVAL 90 MINUTE, 15),
    ('00000000-0000-4000-8000-000000000005', 'P-5', 'open', 'box', 4900, UTC_TIMESTAMP(6) - INTERVAL 90 MINUTE, 15);

-- [rows]
INSERT INTO duetime_hold (order_no, kind, ref, quantity) VALUES
    ('P-1', 'licence', 'editor', 2), ('P-2', 'licence', 'editor', 1), ('P-3', 'licence', 'compiler', 1),
    ('P-5', 'licence', 'compiler', 2), ('P-5', 'licence', 'editor', 1);

-- [expected]
UPDATE purchases SET state = 'abandoned', note = 'timeout' WHERE reference IN ('P-1', 'P-5');
UPDATE licences SET unsold = unsold + 3, on_hold = on_hold - 3 WHERE product = 'editor';
UPDATE licences SET unsold = unsold + 2, on_hold = on_hold - 2 WHERE product = 'compiler';
