// Package issuers reads which issuers of JSON Web Tokens an authentication file trusts
// ([Read], [File]), and what a token says of itself ([ParseClaims]). It verifies nothing.
package issuers
