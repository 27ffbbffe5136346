// A program: reads a push message as npm web-push's own libraries do. Takes JSON on standard input (`private`, `auth`,
// `body` in base64url, and the header `authorization`), and prints the text, and whether the signature is right.
import { createECDH, createPublicKey } from "node:crypto";
import { text } from "node:stream/consumers";
import ece from "http_ece";
import jws from "jws";
import webpush from "web-push";

const given = JSON.parse(await text(process.stdin));
const own = createECDH("prime256v1");
own.setPrivateKey(Buffer.from(given.private, "base64url"));
const body = ece.decrypt(Buffer.from(given.body, "base64url"), { version: "aes128gcm", privateKey: own, authSecret: given.auth });

const [, token, key] = /^vapid t=([^,]+), ?k=(.+)$/.exec(given.authorization);
const point = Buffer.from(key, "base64url");
const jwk = { kty: "EC", crv: "P-256", x: point.subarray(1, 33).toString("base64url"), y: point.subarray(33).toString("base64url") };
const pem = createPublicKey({ key: jwk, format: "jwk" }).export({ type: "spki", format: "pem" });
// What web-push itself would send to the same place has the same form.
const headers = webpush.getVapidHeaders("https://push.example", "mailto:a@example.com", ...Object.values(webpush.generateVAPIDKeys()), "aes128gcm");
const form = Object.keys(jws.decode(/t=([^,]+)/.exec(headers.Authorization)[1]).payload);
const { header, payload } = jws.decode(token);
const isSame = header.alg === "ES256" && JSON.stringify(form.sort()) === JSON.stringify(Object.keys(JSON.parse(JSON.stringify(payload))).sort());
console.log(JSON.stringify({ text: body.toString(), isValid: jws.verify(token, "ES256", pem), isSame }));
