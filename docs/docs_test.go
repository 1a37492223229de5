// Package docs holds documentation; its tests keep it true of the code.
package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestRunbookKnowsEveryReason shows that whoever finds a reason in a status finds it in the runbook too.
func TestRunbookKnowsEveryReason(t *testing.T) {
	runbook := read(t, "restore-runbook.md") + read(t, "how-it-works.md") + read(t, "schedules.md")
	for _, file := range []string{"../api/v1alpha1/conditions.go", "../contract/result.go", "../engine/errors.go"} {
		reasons := reasonsOf(t, file)
		if len(reasons) < 10 {
			t.Errorf("%s has only %d reasons: this test does not find them any more", file, len(reasons))
		}
		for name, reason := range reasons {
			if !strings.Contains(runbook, "`"+reason+"`") {
				t.Errorf("the runbook says nothing of %s (%s in %s)", reason, name, file)
			}
		}
	}
}

// reasonsOf a Go file: the constants whose names begin with Reason or Condition.
func reasonsOf(t *testing.T, file string) map[string]string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	ast.Inspect(parsed, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Reason") && !strings.HasPrefix(spec.Names[0].Name, "Condition") {
			return true
		}
		if literal, ok := spec.Values[0].(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if value, err := strconv.Unquote(literal.Value); err == nil {
				found[spec.Names[0].Name] = value
			}
		}
		return true
	})
	return found
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	block   = regexp.MustCompile("(?s)```.*?```")
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	code    = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
	notSlug = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// TestLinksLeadSomewhere shows that every relative link names a file that is there and, behind a #, a heading in it.
func TestLinksLeadSomewhere(t *testing.T) {
	pages, err := filepath.Glob("*.md")
	if err != nil || len(pages) < 5 {
		t.Fatalf("only %d pages are found: %v", len(pages), err)
	}
	for _, page := range append(pages, "../README.md") {
		if page == "api.md" { // generated
			continue
		}
		for _, match := range link.FindAllStringSubmatch(code.ReplaceAllString(read(t, page), ""), -1) {
			if target := match[1]; !strings.Contains(target, "://") {
				checkLink(t, page, target)
			}
		}
	}
}

func checkLink(t *testing.T, page, target string) {
	t.Helper()
	file, anchor, _ := strings.Cut(target, "#")
	path := page
	if file != "" {
		path = filepath.Join(filepath.Dir(page), file)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("%s links to %s, which is not there", page, target)
		return
	}
	if anchor != "" && !anchorsOf(t, path)[anchor] {
		t.Errorf("%s links to %s, and that page has no such heading", page, target)
	}
}

// anchorsOf a page, as GitHub makes them of headings.
func anchorsOf(t *testing.T, page string) map[string]bool {
	t.Helper()
	anchors := map[string]bool{}
	for _, match := range heading.FindAllStringSubmatch(block.ReplaceAllString(read(t, page), ""), -1) {
		slug := notSlug.ReplaceAllString(strings.ToLower(match[1]), "")
		anchors[strings.ReplaceAll(slug, " ", "-")] = true
	}
	return anchors
}

func read(t *testing.T, page string) string {
	t.Helper()
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
