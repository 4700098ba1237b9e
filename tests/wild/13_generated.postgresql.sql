-- A software seller whose deadline is a generated column: the time of creation and a time-out of each row.

-- [tables]
CREATE TABLE licences (
    product varchar(30) PRIMARY KEY,
    unsold integer NOT NULL,
    on_hold integer NOT NULL,
    total integer GENERATED ALWAYS AS (unsold + on_hold) STORED
);
CREATE TABLE purchases (
    purchase_id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    reference varchar(30) NOT NULL UNIQUE,
    state varchar(12) NOT NULL,
    kind varchar(12) NOT NULL,
    cents bigint NOT NULL,
    created_at timestamp NOT NULL,
    minutes_to_pay integer NOT NULL DEFAULT 15,
    pay_until timestamp GENERATED ALWAYS AS (created_at + minutes_to_pay * interval '1 minute') STORED,
    note varchar(80)
);
INSERT INTO licences (product, unsold, on_hold) VALUES ('editor', 10, 5), ('compiler', 0, 3);
INSERT INTO purchases (purchase_id, reference, state, kind, cents, created_at, minutes_to_pay)
SELECT ('00000000-0000-4000-8000-00000000000' || n)::uuid, 'P-' || n, state, 'download', 4900,
    statement_timestamp() AT TIME ZONE 'UTC' - ago, wait
FROM (VALUES (1, 'open', interval '16 minutes', 15), (2, 'open', '15 minutes 20 seconds', 15), (3, 'open', '90 minutes', 240),
    (4, 'settled', '90 minutes', 15), (5, 'open', '90 minutes', 15)) AS p (n, state, ago, wait);

-- [rows]
INSERT INTO duetime_hold (order_no, kind, ref, quantity) VALUES
    ('P-1', 'licence', 'editor', 2), ('P-2', 'licence', 'editor', 1), ('P-3', 'licence', 'compiler', 1),
    ('P-5', 'licence', 'compiler', 2), ('P-5', 'licence', 'editor', 1);

-- [expected]
UPDATE purchases SET state = 'abandoned', note = 'timeout' WHERE reference IN ('P-1', 'P-5');
UPDATE licences SET unsold = unsold + 3, on_hold = on_hold - 3 WHERE product = 'editor';
UPDATE licences SET unsold = unsold + 2, on_hold = on_hold - 2 WHERE product = 'compiler';
