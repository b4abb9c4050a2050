package issuers

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func token(claims string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".x"
}

func TestParseClaims(t *testing.T) {
	for _, text := range []string{"", "x", "a.%.c", "a.b", token("no JSON"), token(`{"aud": 5}`)} {
		if c := ParseClaims(text); c != nil {
			t.Errorf("%q has the claims %+v", text, c)
		}
	}
	now := time.Unix(1700000000, 0)
	for claims, want := range map[string]string{
		`{"iss":"https://a.example.org","aud":"mini","sub":"jane","exp":1700000060}`: `its issuer is "https://a.example.org", its audience ["mini"], its subject "jane", and it expires at ` + now.Add(time.Minute).Format(time.DateTime),
		`{"aud":["a","b"],"exp":1699999999}`:                                         `its audience ["a" "b"], its subject "", and it expired at ` + now.Add(-time.Second).Format(time.DateTime),
		`{"sub":"two\nlines\u001b[31m"}`:                                             `its subject "two\nlines\x1b[31m"`,
		`{"sub":"` + strings.Repeat("x", 1000) + `"}`:                                strings.Repeat("x", maxText) + `..."`,
	} {
		got := ParseClaims(token(claims))
		if got == nil || !strings.Contains(got.Describe(now), want) || len(got.Describe(now)) > 2*maxText {
			t.Errorf("%.80s: %v, want %s", claims, got, want)
		}
	}
	if end := (*Claims)(nil).End(); !end.IsZero() {
		t.Errorf("a token without claims ends at %s", end)
	}
}

// TestFile: a file is read again when it was changed or replaced, and not otherwise.
func TestFile(t *testing.T) {
	if urls, err := NewFile("").URLs(); urls != nil || err != nil {
		t.Errorf("without a file: %v, %v", urls, err)
	}
	path := filepath.Join(t.TempDir(), "authentication.yaml")
	f := NewFile(path)
	if _, err := f.URLs(); err == nil {
		t.Error("a missing file gives no error")
	}
	moment := time.Now()
	write := func(content string, at time.Time) {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(what string, want ...string) {
		t.Helper()
		if urls, err := f.URLs(); err != nil || !slices.Equal(urls, want) {
			t.Errorf("%s: %v, %v; want %v", what, urls, err, want)
		}
	}
	one, two := "jwt: [{issuer: {url: https://a}}]\n", "jwt: [{issuer: {url: https://b}}]\n"
	write(one, moment)
	expect("the first time", "https://a")
	write(two, moment)
	expect("the same time and size: it is not read", "https://a")
	write(two, moment.Add(time.Second))
	expect("another time", "https://b")
	write("jwt: 5\n", moment.Add(2*time.Second))
	for range 2 {
		if _, err := f.URLs(); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("a file that cannot be parsed: %v", err)
		}
	}
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	write(one, moment.Add(2*time.Second))
	expect("another file", "https://a")
}
