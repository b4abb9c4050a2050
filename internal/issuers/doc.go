// Package issuers reads which issuers of JSON Web Tokens an authentication file trusts
// ([Read], [File]), and the claims of a token ([ParseClaims]). It verifies nothing.
package issuers
