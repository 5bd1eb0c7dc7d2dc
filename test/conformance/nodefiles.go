//go:build linux

package main

import "github.com/kanzen-io/kanzen/test/machine"

// writeNodeFiles writes what the programs of a node read.
func writeNodeFiles(l layout, number int) error {
	return machine.WriteNodeFiles(l.Layout, number, map[string]string{"kubelet.yaml": kubeletConfig, "kube-proxy.yaml": proxyConfig}, "$CA", l.PKI("ca.crt"), "$PKI", l.PKI(""))
}

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
