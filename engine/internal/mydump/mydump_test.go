package mydump

import (
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
)

// whole is a script of the kind that mariadb-dump writes.
const whole = "/*M!999999\\- enable the sandbox mode, isn't it */ \n-- MariaDB dump 10.19  Distrib 10.11.19-MariaDB\n--\n-- Host: localhost    Database: or'ders\n" +
	"/*!40111 SET @OLD_SQL_NOTES=@@SQL_NOTES, SQL_NOTES=0 */;\nCREATE TABLE `a;``b` (i INT COMMENT 'it''s; \\'x');\n" +
	"INSERT INTO t VALUES (1,'a;\\\\'),(2,\"b;\"),(3,'-- c'),(4,'/*'); # behind; it\n" +
	"DELIMITER ;;\n/*!50003 CREATE*/ /*!50017 DEFINER=`root`@`%`*/ /*!50003 TRIGGER x BEFORE INSERT ON t FOR EACH ROW BEGIN SET NEW.a = ';;'; /* in; ;; it */ -- so;;\n END */;;\n" +
	"CREATE PROCEDURE p () BEGIN SELECT 1; SELECT 2; END ;;\nDELIMITER ;\nSELECT 5-3, a--b FROM t;\n/*!40111 SET SQL_NOTES=@OLD_SQL_NOTES */;\n-- Dump completed on 2026-12-01\n"

func split(in io.Reader) (texts []string, lines []int, err error) {
	s := NewScanner(in)
	for {
		statement, err := s.Next()
		if err != nil {
			return texts, lines, err
		}
		texts, lines = append(texts, string(statement.Text)), append(lines, statement.Line)
	}
}

func TestScriptIsSplitAsTheClientDoes(t *testing.T) {
	for name, in := range map[string]io.Reader{"at once": strings.NewReader(whole), "byte by byte": iotest.OneByteReader(strings.NewReader(whole))} {
		texts, lines, err := split(in)
		if !Ended(err) {
			t.Fatalf("%s: %v", name, err)
		}
		want := []string{"/*!40111 SET @OLD_SQL_NOTES=@@SQL_NOTES, SQL_NOTES=0 */", "CREATE TABLE `a;``b` (i INT COMMENT 'it''s; \\'x')",
			"INSERT INTO t VALUES (1,'a;\\\\'),(2,\"b;\"),(3,'-- c'),(4,'/*')",
			"/*!50003 CREATE*/ /*!50017 DEFINER=`root`@`%`*/ /*!50003 TRIGGER x BEFORE INSERT ON t FOR EACH ROW BEGIN SET NEW.a = ';;'; /* in; ;; it */ -- so;;\n END */",
			"CREATE PROCEDURE p () BEGIN SELECT 1; SELECT 2; END", "SELECT 5-3, a--b FROM t", "/*!40111 SET SQL_NOTES=@OLD_SQL_NOTES */"}
		if !reflect.DeepEqual(texts, want) {
			t.Errorf("%s: %q", name, texts)
		}
		if !reflect.DeepEqual(lines, []int{5, 6, 7, 9, 11, 13, 14}) {
			t.Errorf("%s: lines %v", name, lines)
		}
	}
}

// A script that lacks as little as its last line's words is no whole one, wherever it was cut.
func TestScriptThatIsCut(t *testing.T) {
	marker := strings.Index(whole, "-- Dump completed") + len("-- Dump completed")
	for n := strings.Index(whole, "-- MariaDB dump") + 16; n < marker; n++ {
		if _, _, err := split(strings.NewReader(whole[:n])); !errors.Is(err, ErrCut) {
			t.Fatalf("%d of %d bytes pass: %v", n, len(whole), err)
		}
	}
	bare := strings.ReplaceAll(strings.ReplaceAll(whole, "-- Dump completed", "--"), "-- MariaDB dump", "--")
	if _, _, err := split(strings.NewReader(bare)); !Ended(err) {
		t.Errorf("a script without comments: %v", err)
	}
	if _, _, err := split(strings.NewReader(bare[:strings.Index(bare, "/*!40111 SET SQL_NOTES=@OLD")])); !errors.Is(err, ErrCut) {
		t.Errorf("a script without comments that was cut between statements: %v", err)
	}
	if _, _, err := split(strings.NewReader(whole + "INSERT INTO t VALUES (1);\n")); !errors.Is(err, ErrCut) {
		t.Errorf("a statement behind the end marker: %v", err)
	}
}

func TestFailingStreamIsNoEnd(t *testing.T) {
	broken := errors.New("broken")
	for n := range len(whole) {
		if _, _, err := split(io.MultiReader(strings.NewReader(whole[:n]), iotest.ErrReader(broken))); !errors.Is(err, broken) {
			t.Fatalf("behind %d bytes: %v", n, err)
		}
	}
}

func TestBackslashesThatAreNoEscapes(t *testing.T) {
	texts, _, err := split(strings.NewReader("SET sql_mode = 'NO_BACKSLASH_ESCAPES';\nINSERT INTO t VALUES ('\\');\nSET sql_mode = @saved;\nSELECT '\\';';\n"))
	if !Ended(err) || len(texts) != 4 || texts[3] != "SELECT '\\';'" {
		t.Errorf("%q, %v", texts, err)
	}
}

func TestHeadsAreCutAndCounted(t *testing.T) {
	long := "INSERT INTO t VALUES ('" + strings.Repeat("x\n", 1<<20) + "');\nSELECT 1;\n"
	s := NewHeadScanner(strings.NewReader(long))
	first, err := s.Next()
	if err != nil || len(first.Text) != headBytes || !strings.HasPrefix(string(first.Text), "INSERT INTO t") {
		t.Fatalf("%d bytes, %v", len(first.Text), err)
	}
	if second, err := s.Next(); err != nil || string(second.Text) != "SELECT 1" || second.Line != 1<<20+2 {
		t.Errorf("%q on line %d, %v", second.Text, second.Line, err)
	}
}

func TestStatementThatIsTooLong(t *testing.T) {
	s := NewHeadScanner(io.MultiReader(strings.NewReader("INSERT INTO t VALUES (0x"), zeros{}))
	if _, err := s.Next(); err == nil || !strings.Contains(err.Error(), "128 MiB") {
		t.Error(err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}

func TestTokens(t *testing.T) {
	var got []string
	for _, token := range Tokens([]byte("/*!50003 CREATE*/ /* no */ `a``b`.'it''s\\'x' -- no\n@@x=1.5 /*M!999999 no */ # no")) {
		got = append(got, token.Text)
	}
	if want := []string{"CREATE", "a`b", ".", `it's\'x`, "@@x", "=", "1", ".", "5"}; !reflect.DeepEqual(got, want) {
		t.Errorf("%q", got)
	}
}

func TestHeader(t *testing.T) {
	want := Header{Version: 1, ServerVersion: "10.11.19", Databases: []string{"a\nb", "ü'\""}, Several: true}
	line, err := want.Line()
	if err != nil || strings.Count(line, "\n") != 1 {
		t.Fatalf("%q, %v", line, err)
	}
	if got, ok := ParseHeader([]byte(line + "SELECT 1;\n")); !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, ok)
	}
	for _, foreign := range []string{whole, strings.TrimSuffix(line, "\n"), "", "-- holdfast: {\n"} {
		if _, ok := ParseHeader([]byte(foreign)); ok {
			t.Errorf("%.40q is taken for ours", foreign)
		}
	}
	if got := CommentedDatabase([]byte(whole)); got != "or'ders" {
		t.Errorf("%q", got)
	}
}

func TestOptionValue(t *testing.T) {
	if got := OptionValue("a\"b\\c\n#;'"); got != `"a\"b\\c\n#;'"` {
		t.Error(got)
	}
}
