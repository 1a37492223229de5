-- One line for each table and sequence: its name, how many rows, and a checksum of all of them.
SELECT format($$SELECT %L, count(*), md5(coalesce(string_agg(t::text, E'\n' ORDER BY t::text COLLATE "C"), '')) FROM %s t$$,
              c.relname, c.oid::regclass)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'v') AND n.nspname = 'public' ORDER BY c.relname \gexec
SELECT sequencename, coalesce(last_value, 0), md5(coalesce(last_value, 0)::text) FROM pg_sequences
WHERE schemaname = 'public' ORDER BY 1;
