package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"sigs.k8s.io/yaml"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// printValue prints the value as JSON or YAML.
func printValue(w io.Writer, value any, output string) error {
	if output == "json" {
		return printJSON(w, value)
	}
	data, err := yaml.Marshal(value)
	if err != nil {
		return fmt.Errorf("print as YAML: %w", err)
	}
	_, err = w.Write(data)
	return err
}

func printJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond).String()
}

// quantity is a number of things as text: 1 object, 2 objects.
func quantity(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func bytes(n int64) string {
	if n < 0 {
		return "unknown"
	}
	return datadir.Size(n)
}
