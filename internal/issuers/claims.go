package issuers

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// maxText bounds the length of a claim in a text, in bytes.
const maxText = 200

// Claims are those of a JSON Web Token, which nothing has verified.
type Claims struct {
	Issuer   string   `json:"iss"`
	Subject  string   `json:"sub"`
	Audience audience `json:"aud"`
	Expires  float64  `json:"exp"` // seconds since 1970; 0 for never
}

// audience is a string or a list of strings.
type audience []string

// UnmarshalJSON implements [json.Unmarshaler].
func (a *audience) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*a = audience{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(a))
}

// ParseClaims returns the claims of a token; nil if it is no JSON Web Token.
func ParseClaims(token string) *Claims {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	c := &Claims{}
	if err != nil || json.Unmarshal(payload, c) != nil {
		return nil
	}
	return c
}

// End returns when the token expires; zero if it does not, or for nil.
func (c *Claims) End() time.Time {
	if c == nil || c.Expires == 0 {
		return time.Time{}
	}
	return time.Unix(int64(c.Expires), 0)
}

// Describe says in one line what the claims are.
func (c *Claims) Describe(now time.Time) string {
	audiences := make([]string, len(c.Audience))
	for i, name := range c.Audience {
		audiences[i] = Quoted(name)
	}
	text := fmt.Sprintf("its issuer is %s, its audience [%s], its subject %s", Quoted(c.Issuer), strings.Join(audiences, " "), Quoted(c.Subject))
	switch end := c.End(); {
	case end.IsZero():
	case now.After(end):
		text += ", and it expired at " + end.Local().Format(time.DateTime)
	default:
		text += ", and it expires at " + end.Local().Format(time.DateTime)
	}
	return text
}

// Quoted quotes a text of another system for a message, and shortens a long one.
func Quoted(text string) string {
	if len(text) > maxText {
		text = text[:maxText] + "..."
	}
	return fmt.Sprintf("%q", text)
}
