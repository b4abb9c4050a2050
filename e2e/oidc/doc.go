// Package oidc has the programs of the test of logins: an OpenID Connect issuer, and a
// browser that logs a user in.
package oidc
