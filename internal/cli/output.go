package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// format is the value of --output.
type format string

// add adds the flag with the formats of a command; the first is the default.
func (f *format) add(cmd *cobra.Command, formats ...string) {
	if len(formats) == 0 {
		formats = []string{"text", "json", "yaml"} // of facts
	}
	*f = format(formats[0])
	last := len(formats) - 1
	usage := strings.Join(formats[:last], ", ") + " or " + formats[last]
	cmd.Flags().VarP(&choiceFlag{(*string)(f), formats}, "output", "o", usage)
	completeFlag(cmd, "output", formats)
}

// write writes the value as JSON or YAML, or has text write it for a person.
func (f format) write(w io.Writer, value any, text func(io.Writer) error) error {
	switch f {
	case "text":
		return text(w)
	case "json":
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(value)
	}
	data, err := yaml.Marshal(value)
	if err != nil {
		return fmt.Errorf("print as YAML: %w", err)
	}
	_, err = w.Write(data)
	return err
}

// writeTable aligns the columns of rows, which are separated by tabs.
func writeTable(w io.Writer, rows func(row func(format string, args ...any))) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	rows(func(format string, args ...any) {
		_, _ = fmt.Fprintf(table, format+"\n", args...) // Flush reports what failed
	})
	return table.Flush()
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
