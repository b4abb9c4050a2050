package backup

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
)

// BenchmarkWrite writes a backup of 1,500 objects of 8 kB. The level of the compression
// decides its time.
func BenchmarkWrite(b *testing.B) {
	var objects []write
	for i := range 1500 {
		var data strings.Builder
		for j := range 100 {
			fmt.Fprintf(&data, `"setting-%d":"%x of the object",`, j, i*j*2654435761)
		}
		value := fmt.Sprintf(`{"kind":"ConfigMap","metadata":{"name":"object-%d","uid":"%x"},"data":{%s"last":""}}`, i, i*2654435761, data.String())
		objects = append(objects, write{key: fmt.Sprintf("/registry/configmaps/default/object-%d", i), value: value + strings.Repeat(" ", max(0, 8000-len(value)))})
	}
	source, data := server(b), database(b, objects)
	source.Snapshot = func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
	for b.Loop() {
		var backup bytes.Buffer
		if _, err := Write(b.Context(), &backup, source, Options{}); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(backup.Len()), "bytes/backup")
	}
}
