package controlplane

import (
	"context"
	"fmt"

	rows "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
)

// ConvertToTable implements [rest.TableConvertor]: a table has the columns of the resource.
func (n apiResourceNames) ConvertToTable(ctx context.Context, object, options runtime.Object) (*metav1.Table, error) {
	r := n.resource
	table, err := rest.NewDefaultTableConvertor(r.groupResource()).ConvertToTable(ctx, object, options)
	if err != nil {
		return nil, err
	}
	if len(table.ColumnDefinitions) > 0 { // they may be left out
		columns := table.ColumnDefinitions[:1:1]
		for _, column := range r.Columns {
			priority := int32(0)
			if column.Wide {
				priority = 1
			}
			columns = append(columns, metav1.TableColumnDefinition{Name: column.Name, Type: column.Type, Priority: priority})
		}
		table.ColumnDefinitions = append(columns, metav1.TableColumnDefinition{Name: "Age", Type: "string"})
	}
	table.Rows, err = rows.MetaToTableRow(object, func(object runtime.Object, _ metav1.Object,
		name, age string) ([]any, error) {
		cells := []any{name}
		for _, column := range r.Columns {
			cells = append(cells, column.Value(object))
		}
		return append(cells, age), nil
	})
	if err != nil {
		return nil, fmt.Errorf("make a table of %s: %w", r.groupResource(), err)
	}
	return table, nil
}
