package manifests

import (
	"bytes"
	"os"
	"path/filepath"
)

const (
	// chartFile is in the directory of each Helm chart, and templatesDir has its
	// templates.
	chartFile    = "Chart.yaml"
	templatesDir = "templates"
	// action begins each action of a template.
	action = "{{"
)

// chartOf returns the directory of the Helm chart that the file is a template of, or "".
// Files of a chart without actions, as those in its directory crds, are no templates.
func chartOf(path string, data []byte) string {
	if !bytes.Contains(data, []byte(action)) {
		return ""
	}
	for dir := filepath.Dir(path); filepath.Dir(dir) != dir; dir = filepath.Dir(dir) {
		if filepath.Base(dir) != templatesDir {
			continue
		}
		chart := filepath.Dir(dir)
		if _, err := os.Stat(filepath.Join(chart, chartFile)); err == nil {
			return chart
		}
	}
	return ""
}
