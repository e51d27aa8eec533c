package testserver

import "time"

// Link is a Proxy as locktest.Link wants it.
type Link struct{ *Proxy }

// Delay delays every reply; the request has its effect at once.
func (l Link) Delay(d time.Duration) { l.Proxy.Delay(ToClient, d, 0) }

// Jitter delays every message by a random time.
func (l Link) Jitter(most time.Duration) { l.Proxy.Delay(Both, 0, most) }

// BlackHole drops every message.
func (l Link) BlackHole() { l.Drop(Both) }

// Freeze keeps messages until Heal.
func (l Link) Freeze() { l.Proxy.Freeze(Both) }

// Heal ends all of these.
func (l Link) Heal() {
	l.Proxy.Heal()
	l.Proxy.Delay(Both, 0, 0)
}
