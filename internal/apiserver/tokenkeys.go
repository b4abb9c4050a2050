package apiserver

import (
	"context"
	"crypto"
	"fmt"
	"sync"

	"gopkg.in/go-jose/go-jose.v2/jwt"
	"k8s.io/kubernetes/pkg/serviceaccount"
)

// TokenKeys sign and verify service account tokens with keys that can change while the
// server runs. JWTTokenGenerator and StaticPublicKeysGetter of
// k8s.io/kubernetes/pkg/serviceaccount, over which it is made, keep the keys that they
// got. Its methods may be called from several goroutines.
type TokenKeys struct {
	mu        sync.RWMutex
	issuer    string
	signer    crypto.Signer
	generator serviceaccount.TokenGenerator
	getter    serviceaccount.PublicKeysGetter
	listeners []serviceaccount.Listener
}

// NewTokenKeys returns a TokenKeys without keys: call [TokenKeys.Set] before [New].
func NewTokenKeys() *TokenKeys { return &TokenKeys{issuer: issuer} }

// Set replaces the keys: signer, an RSA or ECDSA key, signs tokens; tokens that one
// of verify has signed are accepted.
func (k *TokenKeys) Set(signer crypto.Signer, verify []crypto.PublicKey) error {
	keys := make([]any, 0, len(verify))
	for _, key := range verify {
		keys = append(keys, key)
	}
	getter, err := serviceaccount.StaticPublicKeysGetter(keys)
	if err != nil {
		return fmt.Errorf("use the public keys of service account tokens: %w", err)
	}
	k.mu.Lock()
	err = k.sign(k.issuer, signer)
	if err == nil {
		k.getter = getter
	}
	listeners := k.listeners
	k.mu.Unlock()
	if err != nil {
		return err
	}
	for _, listener := range listeners {
		listener.Enqueue()
	}
	return nil
}

// setIssuer names the issuer of tokens, before the first one is generated.
func (k *TokenKeys) setIssuer(name string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.sign(name, k.signer)
}

func (k *TokenKeys) sign(name string, signer crypto.Signer) error {
	generator, err := serviceaccount.JWTTokenGenerator(name, signer)
	if err != nil {
		return fmt.Errorf("use the key that signs service account tokens: %w", err)
	}
	k.issuer, k.signer, k.generator = name, signer, generator
	return nil
}

// GenerateToken implements [serviceaccount.TokenGenerator].
func (k *TokenKeys) GenerateToken(ctx context.Context, claims *jwt.Claims, private any) (string, error) {
	k.mu.RLock()
	generator := k.generator
	k.mu.RUnlock()
	return generator.GenerateToken(ctx, claims, private)
}

// AddListener implements [serviceaccount.PublicKeysGetter].
func (k *TokenKeys) AddListener(listener serviceaccount.Listener) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.listeners = append(k.listeners, listener)
}

// GetCacheAgeMaxSeconds implements [serviceaccount.PublicKeysGetter].
func (k *TokenKeys) GetCacheAgeMaxSeconds() int { return k.current().GetCacheAgeMaxSeconds() }

// GetPublicKeys implements [serviceaccount.PublicKeysGetter].
func (k *TokenKeys) GetPublicKeys(ctx context.Context, keyID string) []serviceaccount.PublicKey {
	return k.current().GetPublicKeys(ctx, keyID)
}

func (k *TokenKeys) current() serviceaccount.PublicKeysGetter {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.getter
}
