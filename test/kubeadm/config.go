//go:build linux

package main

// What is written for kubeadm. The names of both servers' images differ in the registry only: kubeadm reads the version of a control plane
// from the tag.
const (
	version       = "v1.37.2"
	peerImage     = "registry.k8s.io/kube-apiserver:" + version
	kanzenImage   = "registry.example/kanzen/kube-apiserver:" + version
	releasedImage = "docker.io/library/kanzen:" + version // as release/image calls it
	adminConfig   = "/etc/kubernetes/admin.conf"
	manifest      = "/etc/kubernetes/manifests/kube-apiserver.yaml"
)

// imagePatch is all that makes kanzen the server of a cluster of kubeadm.
const imagePatch = `spec:
  containers:
  - name: kube-apiserver
    image: $IMAGE
`

// releasedPatch does it with the released image, which does not run as root: kubeadm's keys are root's.
const releasedPatch = `spec:
  containers:
  - name: kube-apiserver
    image: $RELEASED
    securityContext: {runAsUser: 0}
`

// kubeadmConfig is for kubeadm init. What it says of kubelets and kube-proxy is for nodes that share one machine: they find the first version of
// control groups and no systemd, perhaps swap and a full disk, and may not set the limits of connection tracking.
const kubeadmConfig = `apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {advertiseAddress: $ADDRESS, bindPort: 6443}
nodeRegistration:
  criSocket: unix:///run/containerd/containerd.sock
  ignorePreflightErrors: [SystemVerification]
patches: {directory: $CONFIG/patches}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: $VERSION
controlPlaneEndpoint: $MACHINE:6443
networking: {serviceSubnet: $SERVICES, dnsDomain: $DOMAIN}
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: cgroupfs
enforceNodeAllocatable: [pods]
evictionHard: {memory.available: 200Mi, nodefs.available: 1Gi, imagefs.available: 1Gi}
failCgroupV1: false
failSwapOn: false
imageGCHighThresholdPercent: 100
---
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clusterCIDR: $ALLPODS
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
mode: iptables
nodePortAddresses: [primary]
`
