SET NAMES utf8mb4;
SELECT 'items', id, `näme "of" it`, price, gross, half, HEX(photo), attributes, changed, kind FROM items ORDER BY id;
SELECT 'note', id, item, MD5(text) FROM notes ORDER BY id;
SELECT 'table', table_name, table_type, engine, table_collation FROM information_schema.tables
  WHERE table_schema = DATABASE() ORDER BY table_name;
SELECT 'column', table_name, column_name, ordinal_position, column_default, is_nullable, column_type, collation_name, extra, generation_expression
  FROM information_schema.columns WHERE table_schema = DATABASE() ORDER BY table_name, ordinal_position;
SELECT 'index', table_name, index_name, seq_in_index, column_name, non_unique FROM information_schema.statistics
  WHERE table_schema = DATABASE() ORDER BY table_name, index_name, seq_in_index;
SELECT 'foreign key', constraint_name, table_name, referenced_table_name, delete_rule FROM information_schema.referential_constraints
  WHERE constraint_schema = DATABASE() ORDER BY constraint_name;
SELECT 'view', table_name, REPLACE(view_definition, CONCAT('`', REPLACE(DATABASE(), '`', '``'), '`.'), ''), definer
  FROM information_schema.views WHERE table_schema = DATABASE() ORDER BY table_name;
SELECT 'trigger', trigger_name, event_object_table, action_timing, action_statement FROM information_schema.triggers
  WHERE trigger_schema = DATABASE() ORDER BY trigger_name;
SELECT 'routine', routine_name, routine_type, routine_definition, is_deterministic FROM information_schema.routines
  WHERE routine_schema = DATABASE() ORDER BY routine_name;
SELECT 'event', event_name, interval_value, interval_field, starts, status, event_definition FROM information_schema.events
  WHERE event_schema = DATABASE() ORDER BY event_name;
SELECT 'sequence', next_not_cached_value, increment FROM numbers;
