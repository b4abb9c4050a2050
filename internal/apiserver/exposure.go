package apiserver

import (
	"fmt"
	"net"
	"net/url"
)

// Exposure describes which hosts can reach a server that does not listen on loopback,
// and with which credentials; "" for one that listens on loopback. server is its URL,
// which has the port. authenticationFile is apiServer.authentication.configFile.
func Exposure(bindAddress, authenticationFile, server string) string {
	address := net.ParseIP(bindAddress)
	if address == nil || address.IsLoopback() {
		return ""
	}
	port := "443"
	if u, err := url.Parse(server); err == nil && u.Port() != "" {
		port = u.Port()
	}
	where := "hosts that reach " + net.JoinHostPort(bindAddress, port)
	if address.IsUnspecified() {
		where = fmt.Sprintf("hosts that reach port %s of any address of this machine", port)
	}
	with := "client certificates and service account tokens of this server; without credentials to /livez, " +
		"/readyz and /healthz only"
	if authenticationFile != "" {
		with = "client certificates and service account tokens of this server, " +
			"and with the methods in apiServer.authentication.configFile"
	}
	return fmt.Sprintf("%s can connect with %s; see \"kube-hyper-mini help network\"", where, with)
}
