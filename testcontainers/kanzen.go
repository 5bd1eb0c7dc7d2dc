// Package kanzen runs kanzen, a Kubernetes API server, in a container of testcontainers-go.
//
//	server, err := kanzen.Run(ctx, "kanzen:latest", kanzen.WithFlags("--emulated-version=1.36"))
//	testcontainers.CleanupContainer(t, server)
//	...
//	cfg, err := kanzen.Config[rest.Config](ctx, server)
//
// It is for suites whose other services are containers, too. For tests of Go alone, package testkit needs no container engine and gives
// each test a control plane within milliseconds; here Container.Plane does so.
package kanzen

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"

	"github.com/testcontainers/testcontainers-go"
	tcexec "github.com/testcontainers/testcontainers-go/exec"
	"github.com/testcontainers/testcontainers-go/wait"
)

const (
	port    = "6443/tcp"
	program = "/kanzen"

	planesPath = "/apis/planes.kanzen.io/v1/planes"
)

// Container is a running server. Its Kubeconfig is the administrator's.
type Container struct {
	testcontainers.Container
}

// Run starts a server of an image, and returns once it is ready. An error may come with a Container, which the caller terminates in any
// case; testcontainers.CleanupContainer does so. The server's data goes with the container.
func Run(ctx context.Context, image string, opts ...testcontainers.ContainerCustomizer) (*Container, error) {
	started, err := testcontainers.Run(ctx, image, append(defaults(), opts...)...)
	var c *Container
	if started != nil {
		c = &Container{started}
	}
	if err != nil {
		return c, fmt.Errorf("run kanzen: %w", err)
	}
	return c, nil
}

// defaults are the options before those of the caller. Flags of the caller are added to the command.
func defaults() []testcontainers.ContainerCustomizer {
	return []testcontainers.ContainerCustomizer{
		testcontainers.WithCmd("serve", "--bind-address=0.0.0.0"),
		testcontainers.WithExposedPorts(port),
		testcontainers.WithWaitStrategy(wait.ForLog(" serves Kubernetes ")), // it says so when /readyz is ok
	}
}

// WithFlags adds flags of "kanzen serve", such as "--event-ttl=1m".
func WithFlags(flags ...string) testcontainers.CustomizeRequestOption {
	return testcontainers.WithCmdArgs(flags...)
}

// WithPlanes has the server serve control planes below its own, which Container.Plane makes. It does so soon after it is ready.
func WithPlanes() testcontainers.CustomizeRequestOption {
	return func(r *testcontainers.GenericContainerRequest) error {
		if err := WithFlags("--planes").Customize(r); err != nil {
			return err
		}
		return testcontainers.WithAdditionalWaitStrategy(wait.ForExec([]string{program, "kubectl", "get", "--raw", planesPath})).Customize(r)
	}
}

// Kubeconfig returns the kubeconfig of the server's administrator, with the address that the engine gave to the server's port.
func (c *Container) Kubeconfig(ctx context.Context) ([]byte, error) {
	return c.kubeconfig(ctx)
}

// Plane is a control plane below that of a container's server: a whole API with objects, users and definitions of its own.
type Plane struct {
	of   *Container
	name string
}

// Plane makes a control plane, in milliseconds. The container needs the option WithPlanes.
func (c *Container) Plane(ctx context.Context, name string) (*Plane, error) {
	plane, err := json.Marshal(map[string]any{"apiVersion": "planes.kanzen.io/v1", "kind": "Plane", "metadata": map[string]string{"name": name}})
	if err != nil {
		return nil, err
	}
	file := "/tmp/" + url.PathEscape(name) + ".json" // a command that runs in a container gets no standard input
	if err := c.CopyToContainer(ctx, plane, file, 0o644); err != nil {
		return nil, fmt.Errorf("create plane %s: %w", name, err)
	}
	if _, err := c.output(ctx, "kubectl", "create", "-f", file); err != nil {
		return nil, fmt.Errorf("create plane %s: %w", name, err)
	}
	return &Plane{c, name}, nil
}

// Kubeconfig returns the kubeconfig of the plane's administrator. It waits until the plane is ready.
func (p *Plane) Kubeconfig(ctx context.Context) ([]byte, error) {
	return p.of.kubeconfig(ctx, "--plane", p.name)
}

func (c *Container) kubeconfig(ctx context.Context, flags ...string) ([]byte, error) {
	text, err := c.output(ctx, append([]string{"kubeconfig"}, flags...)...)
	if err != nil {
		return nil, err
	}
	endpoint, err := c.PortEndpoint(ctx, port, "")
	if err != nil {
		return nil, fmt.Errorf("find the server's port: %w", err)
	}
	return moved(text, endpoint)
}

// output runs a command of kanzen in the container, and returns what it prints.
func (c *Container) output(ctx context.Context, args ...string) ([]byte, error) {
	code, out, err := c.Exec(ctx, append([]string{program}, args...), tcexec.Multiplexed())
	if err != nil {
		return nil, fmt.Errorf("kanzen %s: %w", args[0], err)
	}
	text, err := io.ReadAll(out)
	if err != nil {
		return nil, fmt.Errorf("kanzen %s: %w", args[0], err)
	}
	if code != 0 {
		return nil, fmt.Errorf("kanzen %s: exit code %d: %s", args[0], code, text)
	}
	return text, nil
}
