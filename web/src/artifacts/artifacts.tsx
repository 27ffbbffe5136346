import type { ListedArtifact } from 'handspan/rest';
import { useLive } from '../gateway/live.ts';
import { artifactUrl, rest } from '../gateway/rest.ts';
import type { PageProps } from '../pages.ts';
import { Ago, bytes } from '../parts/ago.tsx';
import { Empty, Problem } from '../parts/empty.tsx';
import { Icon } from '../parts/icon.tsx';
import { List, Row, Sheet } from '../parts/list.tsx';
import { href } from '../router.ts';
import '../parts/section.tsx';

/** The artifacts: images, sounds and files that tools made or people sent. */
export function Page(_: PageProps) {
  const { data, problem } = useLive(['calls', 'sessions'], () => rest.get('/api/artifacts'));
  const artifacts = data.value?.artifacts;
  return (
    <Sheet title="Artifacts" text="Images, sounds and files that tools made or you sent.">
      <Problem text={problem.value} />
      {artifacts?.length === 0 && (
        <Empty icon="artifact" title="No artifacts yet" text="A photo of your phone’s camera will be one." />
      )}
      {artifacts && artifacts.length > 0 && (
        <List label="Artifacts">
          {artifacts.map((one) => (
            <ArtifactRow key={one.id} artifact={one} />
          ))}
        </List>
      )}
    </Sheet>
  );
}

function ArtifactRow({ artifact }: { artifact: ListedArtifact }) {
  const { id, name, media_type, size, session, at } = artifact;
  const shown = name || `${media_type.split('/')[0]} ${id.slice(0, 6)}`;
  const url = artifactUrl(id);
  return (
    <Row
      title={
        <span class="with-picture">
          {/^image\/(png|jpeg|webp|gif)$/.test(media_type) ? (
            <img class="thumb" src={url} alt="" loading="lazy" />
          ) : (
            <Icon name="artifact" />
          )}
          <a href={url} target="_blank" rel="noreferrer">
            {shown}
          </a>
        </span>
      }
      text={
        <>
          {media_type}, {bytes(size)}
          {session && (
            <>
              {' · '}
              <a href={href('chat', session)}>its session</a>
            </>
          )}
        </>
      }
      side={<Ago at={at} />}
      actions={
        <a class="button" href={url} download={shown} aria-label={`Download ${shown}`} title="Download">
          <Icon name="download" />
        </a>
      }
    />
  );
}
