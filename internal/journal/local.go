package journal

import (
	"encoding/json"
	"fmt"
	"os"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// writeJSON replaces a file atomically.
func writeJSON(path string, value any) error {
	data, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("render %s: %w", path, err)
	}
	return datadir.WriteFile(path, append(data, '\n'), 0o600)
}

// readJSON reads a file into value, and reports whether it exists.
func readJSON(path string, value any) (bool, error) {
	data, err := os.ReadFile(path)
	if isMissing(err) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(data, value)
	}
	if err != nil {
		return false, fmt.Errorf("read %s: %w", path, err)
	}
	return true, nil
}
