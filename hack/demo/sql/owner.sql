-- The role that owns the database, and whose Secret Holdfast uses. It is no superuser. To restore, it must be allowed
-- to create databases (a restore loads into a fresh one) and to end other roles' sessions (to swap that in).
\set password `cat /owner/password`
CREATE ROLE orders LOGIN CREATEDB PASSWORD :'password' IN ROLE pg_signal_backend;
CREATE DATABASE orders OWNER orders;
