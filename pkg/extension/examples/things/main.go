// Things is an extension API server of one kind, with its objects in an etcd inside of it.
package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/pkg/extension"
)

// Thing is an object of example.com/v1.
type Thing struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		Size  int32             `json:"size,omitempty" default:"1" doc:"How large the thing is."`
		Color string            `json:"color,omitempty" doc:"The color of the thing."`
		Parts map[string]string `json:"parts,omitempty" doc:"What the thing is made of."`
	} `json:"spec,omitempty" doc:"What the thing is to be."`
	Status struct {
		Phase string `json:"phase,omitempty" doc:"How far the thing is."`
	} `json:"status,omitempty"`
}

func server() *extension.Server {
	s := &extension.Server{Group: "example.com", Version: "v1"}
	extension.Add(s, extension.Kind[Thing]{ShortNames: []string{"th"}, Columns: []extension.Column{
		{Name: "Size", Path: ".spec.size", Type: "integer"}, {Name: "Color", Path: ".spec.color"},
		{Name: "Age", Path: ".metadata.creationTimestamp", Type: "date"},
	}})
	return s
}

func main() { extension.Main(server()) }
