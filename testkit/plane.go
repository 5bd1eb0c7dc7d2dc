package testkit

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
)

// This file gives each server a control plane in a process; docs/planes.md says what one is.

const (
	planesPath       = "/apis/planes.kanzen.io/v1/planes"
	planeSecretsPath = "/api/v1/namespaces/kanzen-planes/secrets/"
)

type metadata struct {
	Name         string            `json:"name,omitempty"`
	GenerateName string            `json:"generateName,omitempty"`
	Namespace    string            `json:"namespace,omitempty"`
	Labels       map[string]string `json:"labels,omitempty"`
}

type plane struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   metadata `json:"metadata"`
	Status     struct {
		Kubeconfig string      `json:"kubeconfig,omitempty"`
		Conditions []condition `json:"conditions,omitempty"`
	} `json:"status"`
}

type condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

type secret struct {
	Data map[string][]byte `json:"data"`
}

// createPlane creates a control plane with a name that begins with that of a test, and returns the name.
func (p *process) createPlane(ctx context.Context, test string) (string, error) {
	made := plane{APIVersion: "planes.kanzen.io/v1", Kind: "Plane", Metadata: metadata{GenerateName: planePrefix(test)}}
	err := poll(ctx, "create a control plane", func() (bool, error) {
		err := p.client.do(ctx, http.MethodPost, planesPath, &made, &made)
		if isCode(err, http.StatusNotFound) { // a process that has just started does not serve planes yet
			return false, nil
		}
		return true, err
	})
	return made.Metadata.Name, p.explained(err)
}

// planeAccess returns the access of a plane's administrator once the plane is ready.
func (p *process) planeAccess(ctx context.Context, name string) (Access, error) {
	var now plane
	err := poll(ctx, "the control plane "+name+" does not become ready", func() (bool, error) {
		if err := p.client.get(ctx, planesPath+"/"+name, &now); err != nil {
			return false, err
		}
		for _, c := range now.Status.Conditions {
			if c.Type == "Ready" {
				return c.Status == "True", nil
			}
		}
		return false, nil
	})
	if err != nil {
		return Access{}, p.explained(err)
	}
	var s secret
	if err := p.client.get(ctx, planeSecretsPath+now.Status.Kubeconfig, &s); err != nil {
		return Access{}, p.explained(err)
	}
	a, err := readKubeconfig(s.Data["value"])
	if err != nil {
		return Access{}, err
	}
	return a, a.write(filepath.Join(p.dir, name+".kubeconfig"), "kubernetes-admin")
}

// deletePlane deletes a plane; the process removes what is stored of it.
func (p *process) deletePlane(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	if err := p.client.do(ctx, http.MethodDelete, planesPath+"/"+name, nil, nil); err != nil {
		return p.explained(fmt.Errorf("delete the control plane %s: %w", name, err))
	}
	return nil
}

// planePrefix makes the beginning of a plane's name of that of a test.
func planePrefix(test string) string {
	const most = 40
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(test))
	name = strings.TrimLeft(name, "-0123456789")
	if len(name) > most {
		name = name[:most]
	}
	if name = strings.Trim(name, "-"); name == "" {
		name = "test"
	}
	return name + "-"
}
