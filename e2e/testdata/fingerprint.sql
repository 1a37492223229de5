-- Prints one line for everything that a restore must bring back. Nothing in it depends on object identifiers.
SET search_path = pg_catalog;
SET extra_float_digits = 3;
SET timezone = 'UTC';
SET row_security = off;

CREATE TEMPORARY VIEW user_schema AS
SELECT oid, nspname FROM pg_namespace
WHERE nspname <> 'information_schema' AND nspname !~ '^pg_';

CREATE TEMPORARY VIEW user_relation AS
SELECT c.oid, c.relkind, c.relname, c.relowner, c.relacl, c.relrowsecurity, c.relforcerowsecurity,
       s.nspname, format('%I.%I', s.nspname, c.relname) AS name
FROM pg_class c JOIN user_schema s ON s.oid = c.relnamespace
WHERE NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e');

-- Rows, by content.
SELECT format('SELECT %L, count(*), md5(coalesce(string_agg(t::text, chr(10) ORDER BY t::text COLLATE "C"), '''')) FROM ONLY %s AS t',
              'rows|' || name, name)
FROM user_relation WHERE relkind IN ('r', 'm') ORDER BY name COLLATE "C" \gexec

-- Sequences.
SELECT format('SELECT %L, last_value, is_called FROM %s', 'sequence|' || name, name)
FROM user_relation WHERE relkind = 'S' ORDER BY name COLLATE "C" \gexec
SELECT 'sequence parameters', s.nspname, c.relname, q.seqtypid::regtype, q.seqstart, q.seqincrement, q.seqmax, q.seqmin, q.seqcache, q.seqcycle
FROM pg_sequence q JOIN pg_class c ON c.oid = q.seqrelid JOIN user_schema s ON s.oid = c.relnamespace
ORDER BY s.nspname COLLATE "C", c.relname COLLATE "C";

-- Large objects.
SELECT 'large object', oid, md5(lo_get(oid)), pg_get_userbyid(lomowner), (SELECT string_agg(a::text, ',' ORDER BY a::text COLLATE "C") FROM unnest(coalesce(lomacl, acldefault('L', lomowner))) a),
       obj_description(oid, 'pg_largeobject')
FROM pg_largeobject_metadata ORDER BY oid;

-- Owners and grants. Grants that were never changed are those of their kind by default, which a dump does not write down.
SELECT 'grants on schema', nspname, pg_get_userbyid(nspowner),
       (SELECT string_agg(a::text, ',' ORDER BY a::text COLLATE "C") FROM unnest(coalesce(nspacl, acldefault('n', nspowner))) a)
FROM pg_namespace WHERE oid IN (SELECT oid FROM user_schema) ORDER BY nspname COLLATE "C";
SELECT 'grants on relation', name, relkind, pg_get_userbyid(relowner), relrowsecurity, relforcerowsecurity,
       (SELECT string_agg(a::text, ',' ORDER BY a::text COLLATE "C") FROM unnest(coalesce(relacl, acldefault(CASE relkind WHEN 'S' THEN 's' ELSE 'r' END::"char", relowner))) a)
FROM user_relation WHERE relkind IN ('r', 'p', 'v', 'm', 'S', 'f') ORDER BY name COLLATE "C";
SELECT 'grants on column', r.name, a.attname, (SELECT string_agg(x::text, ',' ORDER BY x::text COLLATE "C") FROM unnest(a.attacl) x)
FROM user_relation r JOIN pg_attribute a ON a.attrelid = r.oid WHERE a.attacl IS NOT NULL ORDER BY r.name COLLATE "C", a.attname COLLATE "C";
SELECT 'default privileges', pg_get_userbyid(defaclrole), defaclnamespace::regnamespace, defaclobjtype,
       (SELECT string_agg(a::text, ',' ORDER BY a::text COLLATE "C") FROM unnest(defaclacl) a)
FROM pg_default_acl ORDER BY 2, 3, 4;

-- Extensions.
SELECT 'extension', extname, extversion, extnamespace::regnamespace FROM pg_extension ORDER BY extname COLLATE "C";

-- Definitions.
SELECT 'column', r.name, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity, a.attgenerated,
       md5(pg_get_expr(d.adbin, d.adrelid)), col_description(r.oid, a.attnum)
FROM user_relation r JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE r.relkind IN ('r', 'p', 'v', 'm', 'c') ORDER BY r.name COLLATE "C", a.attname COLLATE "C";
SELECT 'view', name, md5(pg_get_viewdef(oid)) FROM user_relation WHERE relkind IN ('v', 'm') ORDER BY name COLLATE "C";
SELECT 'index', r.name, md5(pg_get_indexdef(i.indexrelid)), i.indisvalid
FROM pg_index i JOIN user_relation r ON r.oid = i.indrelid ORDER BY r.name COLLATE "C", 3;
SELECT 'constraint', r.name, c.conname, md5(pg_get_constraintdef(c.oid)), c.convalidated
FROM pg_constraint c JOIN user_relation r ON r.oid = c.conrelid ORDER BY r.name COLLATE "C", c.conname COLLATE "C";
SELECT 'trigger', r.name, t.tgname, t.tgenabled, md5(pg_get_triggerdef(t.oid))
FROM pg_trigger t JOIN user_relation r ON r.oid = t.tgrelid WHERE NOT t.tgisinternal ORDER BY r.name COLLATE "C", t.tgname COLLATE "C";
SELECT 'policy', r.name, p.polname, p.polcmd, md5(coalesce(pg_get_expr(p.polqual, p.polrelid), ''))
FROM pg_policy p JOIN user_relation r ON r.oid = p.polrelid ORDER BY r.name COLLATE "C", p.polname COLLATE "C";
SELECT 'function', s.nspname, p.proname, pg_get_userbyid(p.proowner), md5(pg_get_functiondef(p.oid)),
       (SELECT string_agg(a::text, ',' ORDER BY a::text COLLATE "C") FROM unnest(coalesce(p.proacl, acldefault('f', p.proowner))) a)
FROM pg_proc p JOIN user_schema s ON s.oid = p.pronamespace
WHERE p.prokind IN ('f', 'p') AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e')
ORDER BY s.nspname COLLATE "C", p.proname COLLATE "C", 5;
SELECT 'enum', s.nspname, t.typname, e.enumlabel, row_number() OVER (PARTITION BY t.oid ORDER BY e.enumsortorder)
FROM pg_enum e JOIN pg_type t ON t.oid = e.enumtypid JOIN user_schema s ON s.oid = t.typnamespace
ORDER BY s.nspname COLLATE "C", t.typname COLLATE "C", e.enumsortorder;
SELECT 'comment', r.name, obj_description(r.oid, 'pg_class') FROM user_relation r
WHERE obj_description(r.oid, 'pg_class') IS NOT NULL ORDER BY r.name COLLATE "C";

-- The database itself.
SELECT 'database', pg_get_userbyid(datdba), pg_encoding_to_char(encoding), datcollate, datctype, datconnlimit, datallowconn,
       (SELECT string_agg(a::text, ',' ORDER BY a::text COLLATE "C") FROM unnest(coalesce(datacl, acldefault('d', datdba))) a), shobj_description(oid, 'pg_database')
FROM pg_database WHERE datname = current_database();
SELECT 'database setting', setrole = 0 OR pg_get_userbyid(setrole) IS NULL, CASE WHEN setrole = 0 THEN '' ELSE pg_get_userbyid(setrole) END,
       (SELECT string_agg(c, ',' ORDER BY c COLLATE "C") FROM unnest(setconfig) c)
FROM pg_db_role_setting WHERE setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database()) ORDER BY 3;
