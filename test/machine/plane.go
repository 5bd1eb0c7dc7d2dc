//go:build linux

package machine

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// Plane is the control plane: the server, kube-controller-manager, kube-scheduler.
type Plane struct {
	server []*Daemon // kanzen, or etcd and kube-apiserver
	Client kubernetes.Interface
}

// StartPlane starts the control plane on fresh data and waits until the server is ready.
func StartPlane(ctx context.Context, l Layout, peer bool, ended func(string, error)) (*Plane, error) {
	p := &Plane{}
	commands := kanzenServer(l)
	if peer {
		commands = peerServer(l)
	}
	for _, cmd := range commands {
		d, err := Start(l.Log(filepath.Base(cmd.Path)), ended, cmd)
		if err != nil {
			return nil, err
		}
		p.server = append(p.server, d)
	}
	config, err := clientcmd.BuildConfigFromFlags("", l.PKI("admin.kubeconfig"))
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = 50, 100
	if p.Client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	if err := Eventually(ctx, 2*time.Minute, "the server is ready", func(ctx context.Context) error {
		return p.Client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	}); err != nil {
		return nil, err
	}
	for _, cmd := range []*exec.Cmd{
		exec.Command(l.Program("kube-controller-manager"), "--kubeconfig="+l.PKI("kube-controller-manager.kubeconfig"), "--use-service-account-credentials=true",
			"--controllers=*,bootstrap-signer-controller,token-cleaner-controller", "--service-account-private-key-file="+l.PKI("sa.key"), "--root-ca-file="+l.PKI("ca.crt"),
			"--cluster-signing-cert-file="+l.PKI("ca.crt"), "--cluster-signing-key-file="+l.PKI("ca.key"), "--allocate-node-cidrs=false", "--bind-address=127.0.0.1",
			"--leader-elect=false"),
		exec.Command(l.Program("kube-scheduler"), "--kubeconfig="+l.PKI("kube-scheduler.kubeconfig"), "--bind-address=127.0.0.1", "--leader-elect=false"),
	} {
		if _, err := Start(l.Log(filepath.Base(cmd.Path)), ended, cmd); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// serverFlags are those with which kubeadm starts kube-apiserver. Both servers take them as they are. There is no kube-proxy where the
// server is, so it sends requests for services to their endpoints.
func serverFlags(l Layout) []string {
	return []string{
		"--bind-address=0.0.0.0", "--secure-port=6443", "--advertise-address=" + Address,
		"--tls-cert-file=" + l.PKI("apiserver.crt"), "--tls-private-key-file=" + l.PKI("apiserver.key"), "--client-ca-file=" + l.PKI("ca.crt"),
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--enable-bootstrap-token-auth=true", "--allow-privileged=true",
		"--kubelet-certificate-authority=" + l.PKI("ca.crt"), "--kubelet-client-certificate=" + l.PKI("apiserver-kubelet-client.crt"),
		"--kubelet-client-key=" + l.PKI("apiserver-kubelet-client.key"), "--kubelet-preferred-address-types=InternalIP",
		"--enable-aggregator-routing=true", "--proxy-client-cert-file=" + l.PKI("front-proxy-client.crt"), "--proxy-client-key-file=" + l.PKI("front-proxy-client.key"),
		"--requestheader-client-ca-file=" + l.PKI("front-proxy-ca.crt"), "--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group", "--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--service-account-issuer=https://kubernetes.default.svc." + Domain, "--service-account-key-file=" + l.PKI("sa.pub"),
		"--service-account-signing-key-file=" + l.PKI("sa.key"), "--service-cluster-ip-range=" + ServiceRange,
	}
}

// kanzenServer has no controllers that kube-controller-manager runs as well. The specs open websockets with the origin of another site, which kube-apiserver
// does not look at.
func kanzenServer(l Layout) []*exec.Cmd {
	args := append([]string{"serve", "--data-dir=" + filepath.Join(l.Run(), "data"), "--controllers=", "--websocket-origin-check=false"}, serverFlags(l)...)
	return []*exec.Cmd{exec.Command(l.Program("kanzen"), args...)}
}

func peerServer(l Layout) []*exec.Cmd {
	const client, member = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
	return []*exec.Cmd{
		exec.Command(l.Program("etcd"), "--data-dir="+filepath.Join(l.Run(), "etcd"), "--listen-client-urls="+client, "--advertise-client-urls="+client,
			"--listen-peer-urls="+member, "--initial-advertise-peer-urls="+member, "--initial-cluster=default="+member),
		exec.Command(l.Program("kube-apiserver"), append([]string{"--etcd-servers=" + client}, serverFlags(l)...)...),
	}
}

// Version is what the server says it is.
func (p *Plane) Version() (string, error) {
	v, err := p.Client.Discovery().ServerVersion()
	if err != nil {
		return "", fmt.Errorf("asking the server for its version: %w", err)
	}
	return v.GitVersion, nil
}
