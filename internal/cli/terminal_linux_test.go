package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBackupIsNotWrittenToTerminal: also where colours are switched off.
func TestBackupIsNotWrittenToTerminal(t *testing.T) {
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = terminal.Close() }()
	dir := t.TempDir()
	for name, content := range map[string]string{"lock": "", "version.json": `{"format": 1, "version": "v0.0.0-dev"}`} {
		put(t, filepath.Join(dir, name), content)
	}
	for _, noColor := range []string{"", "1"} {
		t.Setenv("NO_COLOR", noColor)
		var errs strings.Builder
		code := Run(t.Context(), []string{"backup", "save", "--data-dir", dir, "-"}, Streams{In: strings.NewReader(""), Out: terminal, Err: &errs})
		if want := "standard output is a terminal"; code != ExitUsage || !strings.Contains(errs.String(), want) {
			t.Errorf("NO_COLOR=%q: exit code %d, want %q:\n%s", noColor, code, want, errs.String())
		}
	}
}
