//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
)

// writeNodeFiles writes what the programs of a node read.
func writeNodeFiles(l layout, number int) error {
	values := strings.NewReplacer("$NODE", nodeName(number), "$ADDRESS", nodeAddress(number), "$PODS", podsOfNode(number), "$ALLPODS", podRange, "$DNS", serviceOfDNS, "$DOMAIN", domain,
		"$CA", l.pki("ca.crt"), "$CGROUPS", "/"+cgroups+"/"+nodeName(number), "$CONFIG", l.config(number, ""), "$PKI", l.pki(""), "$PAUSE", pauseImage, "$CNI", cniPlugins)
	for name, text := range map[string]string{
		"containerd.toml": containerdConfig, "kubelet.yaml": kubeletConfig, "kube-proxy.yaml": proxyConfig, "cni/10-pods.conflist": podNetwork,
		"resolv.conf": "# Nothing outside the cluster has a name.\n",
	} {
		path := l.config(number, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(values.Replace(text)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// cniPlugins is where the distribution puts them.
const cniPlugins = "/usr/lib/cni"

const containerdConfig = `version = 3
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.nri.v1.nri"]

[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "$PAUSE"

# Containers are killed for memory no later than the machine's own programs, where these may not ask for better.
[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = true

[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ["$CNI"]
conf_dir = "$CONFIG/cni"

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

# Specs of runtime classes ask for a handler of this name.
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.test-handler]
runtime_type = "io.containerd.runc.v2"
`

// The nodes share one machine, which may have swap, a full disk or the first version of control groups.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: $CA}
authorization: {mode: Webhook}
cgroupDriver: cgroupfs
cgroupRoot: $CGROUPS
clusterDNS: [$DNS]
clusterDomain: $DOMAIN
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
enforceNodeAllocatable: [pods]
evictionHard: {memory.available: 200Mi, nodefs.available: 1Gi, imagefs.available: 1Gi}
failCgroupV1: false
failSwapOn: false
imageGCHighThresholdPercent: 100
resolvConf: $CONFIG/resolv.conf
rotateCertificates: true
serverTLSBootstrap: true
`

// The limits of connection tracking are the kernel's, and cannot be set in a namespace.
const proxyConfig = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {kubeconfig: $PKI/kube-proxy.kubeconfig}
clusterCIDR: $ALLPODS
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
hostnameOverride: $NODE
mode: iptables
nodePortAddresses: [primary]
`

// Each pod has a link to its node, and no bridge: its packets always pass through the rules of kube-proxy.
const podNetwork = `{
  "cniVersion": "0.4.0",
  "name": "pods",
  "plugins": [
    {"type": "ptp", "ipMasq": false, "ipam": {"type": "host-local", "ranges": [[{"subnet": "$PODS"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
`
