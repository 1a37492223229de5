# shellcheck shell=bash
# The proof: a checksum over all rows of each table, before, after the damage, and after the restore.

# fingerprint WHEN: keeps one line for each table: name, rows, checksum.
fingerprint() {
	NOW="taking the fingerprint of the tables ($1)"
	sql orders -F ' ' -f - <"$DEMO_DIR/sql/fingerprint.sql" | LC_ALL=C sort >"$WORK/$1"
	printf -- '--- fingerprint %s\n' "$1" >>"$LOG"
	cat "$WORK/$1" >>"$LOG"
}

prove() {
	fingerprint restored
	compare | indent
	cmp -s "$WORK/before" "$WORK/restored" || give_up "the restored tables differ from those that were backed up"
	! cmp -s "$WORK/before" "$WORK/damaged" || give_up "the damage did no harm, so this proves nothing"
	tell "${GREEN}Every table is as it was before the damage.${PLAIN}"
	tell "The state just before the restore was kept, too. The way back, should you need it:"
	tell "  $BOLD$SAFETY_URL$PLAIN"
	NOW="looking for the safety backup in the store"
	mc_ stat "demo/${SAFETY_URL#s3://}.manifest.json" >>"$LOG" 2>&1
}

# compare prints rows and the beginning of the checksum of each table, at the three times.
compare() {
	awk '
		FILENAME != file { file = FILENAME; column++ }
		{ cell[$1, column] = $2 " " substr($3, 1, 8); if (column == 1) names[++count] = $1 }
		END {
			printf "%-20s %-17s %-17s %-17s\n", "rows, checksum", "before", "damaged", "restored"
			for (i = 1; i <= count; i++) {
				name = names[i]
				for (c = 1; c <= 3; c++) if (!((name, c) in cell)) cell[name, c] = "gone"
				same = cell[name, 1] == cell[name, 3] ? "equal" : "DIFFERENT"
				printf "%-20s %-17s %-17s %-17s %s\n", name, cell[name, 1], cell[name, 2], cell[name, 3], same
			}
		}' "$WORK/before" "$WORK/damaged" "$WORK/restored"
}
