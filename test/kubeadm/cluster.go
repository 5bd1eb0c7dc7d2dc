//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kanzen-io/kanzen/test/balancer"
	"github.com/kanzen-io/kanzen/test/machine"
)

// The nodes. The control planes after the first join later.
const (
	first  = 1
	worker = 2
	second = 3
	third  = 4
)

// patience is how long a step waits for what it asks for. The kubelet waits for five minutes at most before it starts a program again that ends each time, as
// controllers and the scheduler do when the server is away for longer than they hold their leases.
const patience = 8 * time.Minute

// cluster is what steps are done to.
type cluster struct {
	s        settings
	args     []string
	nodes    map[int]*machine.Daemon
	killed   [allNodes + 1]atomic.Bool
	balancer *balancer.Balancer
	ended    func(string, error)
	join     string // the command that kubeadm prints for nodes

	config *rest.Config // of the administrator, through the balancer
	client kubernetes.Interface
	counts []count
}

// clusterStage is the stage that has the nodes, and does the steps.
func clusterStage(s settings, args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c := &cluster{s: s, args: args, nodes: map[int]*machine.Daemon{}}
	// Nothing can go on when a node has ended.
	c.ended = func(name string, err error) {
		if ctx.Err() == nil && !c.killed[numberOf(name)].Load() {
			cancel(fmt.Errorf("%s ended: %w; its log is %s", name, errors.Join(err, machine.ErrSaid), s.Log(name)))
		}
	}
	if err := machine.MakeBridge(allNodes); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", machine.Address+":6443")
	if err != nil {
		return err
	}
	c.balancer = balancer.New()
	c.balancer.Start(ctx, listener)
	outcomes := c.run(ctx)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		fmt.Fprintln(os.Stderr, cause)
	}
	err = report(s, c, outcomes)
	if s.hold && ctx.Err() == nil {
		<-ctx.Done()
	}
	return err
}

func numberOf(name string) int {
	number, _ := strconv.Atoi(strings.TrimPrefix(name, "node-"))
	return number
}

// power switches a node on.
func (c *cluster) power(ctx context.Context, number int) error {
	cmd := machine.Stage("node-init", append(slices.Clone(c.args), fmt.Sprintf("-node=%d", number)))
	d, err := machine.StartNode(c.s.Layout, number, machine.Namespaces, c.ended, cmd)
	if err != nil {
		return err
	}
	c.nodes[number] = d
	if err := os.WriteFile(c.s.pid(number), []byte(strconv.Itoa(d.Cmd.Process.Pid)), 0o644); err != nil {
		return err
	}
	return machine.Eventually(ctx, patience, machine.NodeName(number)+" is on", func(ctx context.Context) error {
		_, err := c.on(ctx, number, "test", "-f", readyMark)
		return err
	})
}

// kill takes a node's power away: every process of it ends at once, and its network is gone.
func (c *cluster) kill(number int) error {
	c.killed[number].Store(true)
	if err := c.nodes[number].Cmd.Process.Kill(); err != nil {
		return err
	}
	<-c.nodes[number].Done
	return nil
}

// entering are nsenter's arguments to run a command on a node.
func entering(pid int, command string) []string {
	return []string{"-t", strconv.Itoa(pid), "-m", "-n", "-u", "-i", "-p", "--wd=/", command}
}

// pid is the file with the number of a node's process 1, in the machine.
func (s settings) pid(number int) string { return s.Node(number) + ".pid" }

// login is the stage in which somebody is logged in on a node.
func login(s settings, number int) error {
	b, err := os.ReadFile(s.pid(number))
	if err != nil {
		return fmt.Errorf("%s is not on: %w", machine.NodeName(number), err)
	}
	pid, err := strconv.Atoi(string(b))
	if err != nil {
		return err
	}
	cmd := exec.Command("nsenter", entering(pid, "bash")...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = append(nodeEnvironment(s, number), "TERM="+os.Getenv("TERM")), os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}

// on runs a command on a node as root, and returns what it printed. All commands are written down in commands.log.
func (c *cluster) on(ctx context.Context, number int, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "nsenter", append(entering(c.nodes[number].Cmd.Process.Pid, name), args...)...)
	cmd.Env = nodeEnvironment(c.s, number)
	began := time.Now()
	out, err := cmd.CombinedOutput()
	if name == "test" {
		return string(out), err
	}
	line := strings.Join(append([]string{name}, args...), " ")
	c.log("%s %s$ %s\n%s[%v, %.1f s]\n\n", began.Format(time.TimeOnly), machine.NodeName(number), line, out, err, time.Since(began).Seconds())
	if err != nil {
		return string(out), fmt.Errorf("%s on %s: %w: %s", line, machine.NodeName(number), err, lastLines(string(out), 12))
	}
	return string(out), nil
}

// shell runs a script on a node.
func (c *cluster) shell(ctx context.Context, number int, script string) (string, error) {
	return c.on(ctx, number, "sh", "-euc", script)
}

// kubectl runs kubectl on the first node.
func (c *cluster) kubectl(ctx context.Context, args ...string) (string, error) {
	return c.on(ctx, first, "kubectl", args...)
}

func (c *cluster) log(format string, args ...any) {
	f, err := os.OpenFile(filepath.Join(c.s.Out, "commands.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer f.Close()
	fmt.Fprintf(f, format, args...)
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// login reads the administrator's kubeconfig, as kubeadm has written it last.
func (c *cluster) login(ctx context.Context) error {
	text, err := c.on(ctx, first, "cat", adminConfig)
	if err != nil {
		return err
	}
	if c.config, err = clientcmd.RESTConfigFromKubeConfig([]byte(text)); err != nil {
		return err
	}
	c.config.QPS, c.config.Timeout = -1, 0
	c.client, err = kubernetes.NewForConfig(c.config)
	return err
}

// serverOf is where the server of a node listens.
func serverOf(number int) string { return machine.NodeAddress(number) + ":6443" }

// directly is the configuration of a client that asks a node's server, without the balancer.
func (c *cluster) directly(number int) *rest.Config {
	config := rest.CopyConfig(c.config)
	config.Host = "https://" + serverOf(number)
	return config
}
