// A real OpenID Connect provider for the tests of single sign-on: `node provider.mjs` prints its issuer and serves until
// its standard input ends. People and their groups are set with POST /test/people; POST /test/keys rotates its keys,
// POST /test/forge changes the claims or the header of the next ID tokens, POST /test/claims moves the claims to userinfo.
import { createServer } from 'node:http';
import { generateKeyPair, exportJWK, SignJWT, decodeJwt } from 'jose';
import Provider from 'oidc-provider';

const stored = new Map();

class Adapter {
  constructor(kind) { this.kind = kind; }
  key(id) { return `${this.kind}:${id}`; }
  async upsert(id, content) { stored.set(this.key(id), content); }
  async find(id) { return stored.get(this.key(id)); }
  async search(field, value) {
    for (const [key, content] of stored) if (key.startsWith(`${this.kind}:`) && content[field] === value) return content;
    return undefined;
  }
  async findByUid(uid) { return this.search('uid', uid); }
  async findByUserCode(code) { return this.search('userCode', code); }
  async consume(id) { stored.get(this.key(id)).consumed = Math.floor(Date.now() / 1000); }
  async destroy(id) { stored.delete(this.key(id)); }
  async revokeByGrantId(grant) { for (const [key, content] of stored) if (content.grantId === grant) stored.delete(key); }
}

let people = {}, forge = {}, inUserinfo = false, number = 0, keys, provider;

const client = (id, grants) => ({
  client_id: id, client_secret: 'a secret of the tests, and of nothing else', application_type: 'native',
  grant_types: grants, response_types: ['code'], scope: 'openid profile email groups offline_access',
  redirect_uris: ['http://127.0.0.1/callback', 'http://localhost/api/v1/auth/oidc/callback', 'http://127.0.0.1/api/v1/auth/oidc/callback'],
});
const DEVICE = 'urn:ietf:params:oauth:grant-type:device_code';

async function newKey() {
  const { privateKey } = await generateKeyPair('RS256', { extractable: true });
  return { ...(await exportJWK(privateKey)), kid: `key-${++number}`, alg: 'RS256', use: 'sig' };
}

async function forged(text) {
  const { header, ...claims } = forge;
  const content = { ...decodeJwt(text), ...claims };
  if (header?.alg === 'none') {
    return [header, content].map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.') + '.';
  }
  const secret = header?.alg === 'HS256' ? new TextEncoder().encode('a secret of the tests, and of nothing else') : keys[0];
  return new SignJWT(content).setProtectedHeader({ alg: 'RS256', kid: keys[0].kid, ...header }).sign(secret);
}

function make(issuer) {
  provider = new Provider(issuer, {
    adapter: Adapter, jwks: { keys },
    clients: [client('cronflow', ['authorization_code', 'refresh_token', DEVICE]), client('browser-only', ['authorization_code', 'refresh_token']), client('short', ['authorization_code'])],
    cookies: { keys: ['tests'] },
    conformIdTokenClaims: inUserinfo,
    claims: { openid: ['sub'], profile: ['preferred_username', 'name'], email: ['email', 'email_verified'], groups: ['groups'] },
    scopes: ['openid', 'offline_access', 'profile', 'email', 'groups'],
    // Each refresh token is good for one answer, and the use of an earlier one ends the grant.
    rotateRefreshToken: true,
    issueRefreshToken: async (_, one) => one.grantTypeAllowed('refresh_token'),
    features: { devInteractions: { enabled: false }, deviceFlow: { enabled: true, userCodeInputSource: page, userCodeConfirmSource: page, successSource: (ctx) => { ctx.body = 'done'; } } },
    interactions: { url: (_, interaction) => `/login/${interaction.uid}` },
    findAccount: async (_, id) => people[id] && { accountId: id, claims: async () => ({ sub: id, preferred_username: id, email: `${id}@example.com`, email_verified: true, ...people[id] }) },
    loadExistingGrant: async (ctx) => {
      const grant = new ctx.oidc.provider.Grant({ clientId: ctx.oidc.client.clientId, accountId: ctx.oidc.session.accountId });
      grant.addOIDCScope('openid profile email groups offline_access');
      await grant.save();
      return grant;
    },
    ttl: { AccessToken: 600, AuthorizationCode: 60, DeviceCode: 600, Grant: 3600, IdToken: 600, Interaction: 600, RefreshToken: 3600, Session: 3600 },
  });
  provider.use(async (ctx, next) => {
    await next();
    if (ctx.oidc?.route === 'token' && ctx.body?.id_token && Object.keys(forge).length) ctx.body.id_token = await forged(ctx.body.id_token);
  });
}

async function page(ctx, form) { ctx.body = `<!doctype html><title>Device</title>${form}<button form="op.deviceInputForm">Next</button><button form="op.deviceConfirmForm">Yes</button>`; }

async function read(request) {
  let text = '';
  for await (const chunk of request) text += chunk;
  return text;
}

/** The form in which a person gives only a name. */
async function login(request, response) {
  const { prompt } = await provider.interactionDetails(request, response);
  // Every client of a command line asks for consent.
  if (prompt.name === 'consent') return provider.interactionFinished(request, response, { consent: {} }, { mergeWithLastSubmission: true });
  if (request.method === 'POST') {
    const name = new URLSearchParams(await read(request)).get('login');
    const result = people[name] ? { login: { accountId: name } } : { error: 'access_denied' };
    await provider.interactionFinished(request, response, result, { mergeWithLastSubmission: false });
    return;
  }
  response.setHeader('Content-Type', 'text/html; charset=utf-8');
  response.end('<!doctype html><html lang="en"><title>Example ID</title><form method="post"><label>Name <input name="login" autofocus></label><button>Continue</button></form></html>');
}

const server = createServer(async (request, response) => {
  const path = new URL(request.url, 'http://provider').pathname;
  if (path.startsWith('/login/')) return login(request, response).catch((error) => response.writeHead(400).end(String(error)));
  if (!path.startsWith('/test/')) return provider.callback()(request, response);
  const given = JSON.parse((await read(request)) || '{}');
  if (path === '/test/people') people = given;
  if (path === '/test/forge') forge = given;
  if (path === '/test/codes') {
    const codes = [...stored].filter(([key, one]) => key.startsWith('DeviceCode:') && !one.accountId).map(([, one]) => one.userCode);
    return response.end(JSON.stringify(codes));
  }
  if (path === '/test/keys') keys = [await newKey()];
  if (path === '/test/claims') inUserinfo = given.in === 'userinfo';
  if (path === '/test/keys' || path === '/test/claims') make(issuer);
  return response.end('{}');
});

keys = [await newKey()];
server.listen(Number(process.env.PORT ?? 0), '127.0.0.1');
await new Promise((done) => server.once('listening', done));
const issuer = `http://127.0.0.1:${server.address().port}`;
make(issuer);
console.log(issuer);
process.stdin.resume().on('end', () => process.exit(0));
