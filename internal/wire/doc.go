// Package wire contains connections to other programs and their protocols: certificates, egress proxies, kubelets, upgraded
// connections and SPDY, webhooks, KMS plugins, and requests that are passed on to other API servers. It decides nothing about requests.
package wire
