//go:build linux

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kanzen-io/kanzen/test/machine"
)

// running is a pod on a node.
type running struct {
	nodes  *nodes
	pod    *corev1.Pod // a copy
	number int
}

// live says that the pod runs, and runs its programs until the context ends.
func (r *running) live(ctx context.Context) error {
	if ctx.Err() != nil {
		return nil
	}
	if r.number > 200 {
		return errors.New("there are no more addresses in the network of the machine")
	}
	r.pod.Status.PodIP, r.pod.Status.HostIP = fmt.Sprintf("10.210.0.%d", 20+r.number), machine.Address
	v := &volumes{client: r.nodes.client, pod: r.pod, folder: filepath.Join(r.folder(), "volumes"), tokens: map[string][]byte{}}
	for _, c := range r.pod.Spec.Containers {
		if _, is := r.nodes.operator.programOf(c.Image); is {
			return r.runProgram(ctx, &c, v)
		}
	}
	return r.nodes.report(ctx, r.pod, true, 0)
}

// folder has what the pod has on the disk.
func (r *running) folder() string {
	return filepath.Join(r.nodes.l.Run(), "pods", string(r.pod.UID))
}

// runProgram runs a container as a process, again and again if it ends, after the init containers whose programs are built here.
func (r *running) runProgram(ctx context.Context, c *corev1.Container, v *volumes) error {
	for _, first := range r.pod.Spec.InitContainers {
		if _, is := r.nodes.operator.programOf(first.Image); !is {
			continue
		}
		if err := r.initialize(ctx, &first, v); err != nil {
			return err
		}
	}
	for restarts := int32(0); ctx.Err() == nil; restarts++ {
		if err := r.once(ctx, c, v, restarts); err != nil {
			return err
		}
		pause(ctx)
	}
	return nil
}

// pause is between two starts of a program.
func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Second):
	}
}

// initialize runs an init container until it succeeds.
func (r *running) initialize(ctx context.Context, c *corev1.Container, v *volumes) error {
	for ctx.Err() == nil {
		d, err := r.start(ctx, c, v)
		if err != nil {
			return err
		}
		select {
		case <-d.Done:
			if d.Cmd.ProcessState.Success() {
				return nil
			}
		case <-ctx.Done():
			end(d)
		}
		pause(ctx)
	}
	return nil
}

// start starts the program of a container in the network of the pod.
func (r *running) start(ctx context.Context, c *corev1.Container, v *volumes) (*machine.Daemon, error) {
	// What an init container, or another pod, writes to a secret is there for the next container.
	var env []string
	if err := machine.Eventually(ctx, 2*time.Minute, "its volumes and variables are there", func(ctx context.Context) (err error) {
		if err = v.sync(ctx); err == nil {
			env, err = v.environment(ctx, c)
		}
		return err
	}); err != nil {
		return nil, err
	}
	description := r.describe(c, v, env)
	if c.WorkingDir != "" {
		description.Dir = c.WorkingDir
	}
	file := filepath.Join(r.folder(), c.Name+".json")
	if err := description.write(file); err != nil {
		return nil, err
	}
	cmd := machine.Stage(podStage, []string{file})
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: machine.Namespaces}
	connected, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	d, err := machine.Start(r.nodes.l.Log(r.pod.Name), func(string, error) {}, cmd)
	if err != nil {
		return nil, err
	}
	if err := machine.Connect("pod-"+strconv.Itoa(r.number), cmd.Process.Pid); err != nil {
		end(d)
		return nil, err
	}
	if _, err = connected.Write([]byte("connected\n")); err != nil {
		end(d)
	}
	return d, err
}

// describe says what the program of a container is, and what it sees.
func (r *running) describe(c *corev1.Container, v *volumes, env []string) container {
	o, l := r.nodes.operator, r.nodes.l
	name, _ := o.programOf(c.Image)
	entry := []string{name}
	if o.places[name] != nil { // the entry point runs what its arguments say
		entry = nil
	}
	d := container{Folder: filepath.Join(r.folder(), "containers", c.Name), Volumes: v.folder, Address: r.pod.Status.PodIP, Search: r.pod.Namespace + ".svc." + machine.Domain, Dir: "/",
		Program: program(l, o, name), Places: o.places[name], Args: commandLine(c, entry, env), Env: env, Mounts: mountsOf(c), Image: map[string]string{}}
	for at, in := range o.files {
		d.Image[at] = filepath.Join(source(l, o), in)
	}
	for at := range o.tools {
		d.Image[at] = program(l, o, filepath.Base(at))
	}
	return d
}

// end ends a program, which has a moment for it, and waits until it has.
func end(d *machine.Daemon) {
	_ = d.Cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
	select {
	case <-d.Done:
	case <-time.After(3 * time.Second):
		_ = d.Cmd.Process.Kill()
		<-d.Done
	}
}

// once runs the program until it ends, says when it is ready, and has its volumes up to date meanwhile.
func (r *running) once(ctx context.Context, c *corev1.Container, v *volumes, restarts int32) error {
	if err := r.nodes.report(ctx, r.pod, false, restarts); err != nil {
		return err
	}
	d, err := r.start(ctx, c, v)
	if err != nil {
		return err
	}
	defer end(d)
	ready := false
	for tick := 1; ; tick++ {
		select {
		case <-d.Done:
			return nil
		case <-ctx.Done():
			return nil
		case <-time.After(500 * time.Millisecond):
		}
		if is := probe(ctx, c, r.pod.Status.PodIP) == nil; is != ready {
			ready = is
			if err := r.nodes.report(ctx, r.pod, ready, restarts); err != nil {
				return err
			}
		}
		if tick%4 != 0 {
			continue
		}
		if err := v.sync(ctx); err != nil && ctx.Err() == nil {
			fmt.Fprintf(os.Stderr, "pod %s: %v\n", r.pod.Name, err)
		}
	}
}

// prober asks as kubelets do: it does not look at certificates.
var prober = &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}

// probe asks whether a container is ready. One that does not say how to ask is.
func probe(ctx context.Context, c *corev1.Container, address string) error {
	p := c.ReadinessProbe
	switch {
	case p == nil || p.Exec != nil:
		return nil
	case p.HTTPGet != nil:
		scheme := "http"
		if p.HTTPGet.Scheme == corev1.URISchemeHTTPS {
			scheme = "https"
		}
		url := fmt.Sprintf("%s://%s%s", scheme, net.JoinHostPort(address, strconv.Itoa(portOf(c, p.HTTPGet.Port))), p.HTTPGet.Path)
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		request.Header.Set("User-Agent", "kube-probe/1.37") // some programs answer it otherwise than others
		for _, h := range p.HTTPGet.HTTPHeaders {
			request.Header.Set(h.Name, h.Value)
		}
		answer, err := prober.Do(request)
		if err != nil {
			return err
		}
		_ = answer.Body.Close()
		if answer.StatusCode >= 400 {
			return fmt.Errorf("%s answers %s", url, answer.Status)
		}
		return nil
	}
	port := 0
	if p.TCPSocket != nil {
		port = portOf(c, p.TCPSocket.Port)
	} else if p.GRPC != nil {
		port = int(p.GRPC.Port)
	}
	d := net.Dialer{Timeout: 2 * time.Second}
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(address, strconv.Itoa(port)))
	if err == nil {
		err = conn.Close()
	}
	return err
}

// portOf is a port by its number or its name.
func portOf(c *corev1.Container, port intstr.IntOrString) int {
	for _, p := range c.Ports {
		if port.Type == intstr.String && p.Name == port.StrVal {
			return int(p.ContainerPort)
		}
	}
	return port.IntValue()
}
