package cells

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Column describes one column of a table.
type Column = metav1.TableColumnDefinition

// Name returns the column from which clients take an object's name.
func Name() Column {
	return Column{Name: "Name", Type: "string", Format: "name", Description: metav1.ObjectMeta{}.SwaggerDoc()["name"]}
}

// Age returns the column for Since(creationTimestamp).
func Age() Column {
	return String("Age", metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"])
}

// String returns a column of strings.
func String(name, description string) Column {
	return Column{Name: name, Type: "string", Description: description}
}

// Integer returns a column of int64s.
func Integer(name, description string) Column {
	return Column{Name: name, Type: "integer", Description: description}
}

// Boolean returns a column of bools.
func Boolean(name, description string) Column {
	return Column{Name: name, Type: "boolean", Description: description}
}

// Wide returns c as a column that clients show only in wide output (kubectl -o wide).
func Wide(c Column) Column {
	c.Priority = 1
	return c
}

// Images returns the two columns for Containers.
func Images() []Column {
	return []Column{
		Wide(String("Containers", "Names of the containers in the pod template.")),
		Wide(String("Images", "Images of the containers in the pod template.")),
	}
}

// Workload returns the columns of a kind that creates pods from a template: its own, then the wide ones of the
// template's containers and of the selector.
func Workload(selector string, own ...Column) []Column {
	return append(append(own, Images()...), Wide(String("Selector", selector)))
}
