// Package wire has the connections outward and what they speak: certificates, proxies of egress, kubelets, upgrades and SPDY,
// webhooks named by a kubeconfig, KMS plugins, requests passed on to other API servers. It decides nothing about requests.
package wire
